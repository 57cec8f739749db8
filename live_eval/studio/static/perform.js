// Perform scripts: show each script with its style, check the take, and let the endpoint reply.
import { path, read } from "./api.js";
import { button, fill, make } from "./web/elements.js";
import { showTalk } from "./talk.js";
import { Conversation } from "./talk_conversation.js";
import { Setup } from "./talk_setup.js";

const LEAD =
  "Say each script in several styles; the takes are streamed to the endpoint, and its replies show whether it hears how you speak.";
const SCRIPTS = 5; // minimum for cue sensitivity
const MOST_SCRIPTS = 2000;
const KEYS = { a: "accept", r: "repeat", s: "skip" };
const TAKES = ["recording", "checking", "checked"];

// The studio writes a hyphen, as in the terminal.
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`.replaceAll(/-(?=[\d.]+ dBFS)/g, "−");

export const show = (place, view) =>
  showTalk(place, view, { title: "Perform", lead: LEAD }, Performing, PerformSetup, "/api/talk?perform=1");

/** The form before a performance, which also asks for the scripts and the performer's consent. */
class PerformSetup extends Setup {
  constructor(choices, start) {
    super(choices, start);
    this.data = make(
      "select",
      { name: "data" },
      choices.data.map((name) => make("option", { value: name }, name)),
    );
    this.scripts = make("input", {
      type: "number",
      name: "scripts",
      value: SCRIPTS,
      min: 1,
      max: MOST_SCRIPTS,
      required: true,
    });
    this.consent = make("input", { name: "consent", autocomplete: "off", required: true });
    this.several.remove(); // a performance has one endpoint
    this.element.lastElementChild.remove(); // the note on headphones: the microphone is closed during replies
    this.element.prepend(
      make(
        "fieldset",
        {},
        make("legend", {}, "Scripts"),
        make("label", {}, "Data set", this.data),
        make("label", {}, "Scripts", this.scripts),
      ),
      make(
        "fieldset",
        {},
        make("legend", {}, "Consent"),
        make("p", {}, choices.consent),
        make("label", {}, "To consent, type your name or initials", this.consent),
      ),
    );
  }

  request() {
    const perform = {
      data: this.data.value,
      scripts: Number(this.scripts.value),
      consent: this.consent.value,
    };
    return { ...super.request(), perform };
  }
}

/** A performance in progress, or one that has ended. */
class Performing extends Conversation {
  layOut() {
    this.checked = false; // whether a take has been checked
    this.count = make("p", { class: "note" });
    this.direction = make("p", { class: "take-direction" });
    this.script = make("p", { class: "take-script" });
    this.check = make("p", { class: "take-check", role: "status" });
    this.choices = {
      end: button("End the take", () => this.take("end"), { "aria-keyshortcuts": "Enter" }),
      accept: button("Accept", () => this.take("accept"), { "aria-keyshortcuts": "A Enter" }),
      repeat: button("Repeat", () => this.take("repeat"), { "aria-keyshortcuts": "R" }),
      skip: button("Skip", () => this.take("skip"), { "aria-keyshortcuts": "S" }),
    };
    this.card = make(
      "section",
      { class: "take", "aria-label": "Script", hidden: true },
      this.count,
      this.direction,
      this.script,
      this.check,
      make("div", { class: "talk-controls" }, Object.values(this.choices)),
    );
    this.outcome = make("div", { class: "take-outcome", role: "status" });
    const element = super.layOut();
    element.prepend(this.card);
    element.insertBefore(this.outcome, this.run);
    return element;
  }

  began(facts, streams) {
    super.began(facts, streams);
    this.half.hidden = this.committing.hidden = this.change.hidden = true;
    this.keys.textContent =
      "Enter ends a take, then accepts it, or repeats one with problems; A accepts, R repeats, S skips. Space mutes, Escape ends the performance.";
  }

  /** Make the choice of a key, as in the terminal, if it is offered. */
  press(key) {
    const choice = KEYS[key];
    if (!choice || this.card.hidden || this.choices[choice].hidden) return false;
    this.take(choice);
    return true;
  }

  /** End the take in progress, accept the checked take, or repeat one with problems. */
  commit() {
    this.take("enter");
  }

  /** Emphasise the button that Enter stands for. */
  enter(choice) {
    for (const [key, each] of Object.entries(KEYS)) {
      const keys = key.toUpperCase() + (each === choice ? " Enter" : "");
      this.choices[each].setAttribute("aria-keyshortcuts", keys);
    }
  }

  take(choice) {
    this.ask({ type: "take", choice });
    this.element.focus();
  }

  /** Show only the given buttons. */
  offer(...names) {
    for (const [name, { hidden }] of Object.entries(this.choices)) {
      if (hidden === names.includes(name)) this.choices[name].hidden = !hidden;
    }
  }

  receive(message) {
    super.receive(message);
    if (message.type === "take") {
      const again = message.attempt > 1 ? `, attempt ${message.attempt}` : "";
      this.count.textContent = `Take ${message.number} of ${message.total}${again}`;
      this.direction.textContent = `Say this ${message.direction}:`;
      this.script.textContent = message.text;
      this.check.textContent = "";
      this.card.hidden = false;
      this.offer("end", "skip");
    } else if (message.type === "state" && message.state === "checking") {
      this.check.textContent = this.checked ? "checking …" : "checking; the first check loads the recogniser …";
      this.checked = true;
      this.check.removeAttribute("data-problem");
      this.offer();
    } else if (message.type === "checked") {
      this.check.textContent = [message.text, ...message.notes].map(sentence).join(" ");
      this.check.toggleAttribute("data-problem", message.problems.length > 0);
      this.enter(message.enter);
      this.offer(...(message.usable ? ["accept"] : []), "repeat", "skip");
    } else if (message.type === "again") {
      this.count.textContent = "End skips this.";
      this.direction.textContent = "Streaming the takes again, to compare styles with repeats:";
      this.script.textContent = `${message.number} of ${message.total}`;
      this.check.textContent = "";
    } else if (message.type === "state" && !TAKES.includes(message.state)) {
      const streams = ["starting", "talking"].includes(message.state) && this.script.textContent;
      this.card.hidden = !streams;
      this.offer();
    }
  }

  stored(message) {
    super.stored(message);
    this.card.hidden = true;
    this.conclude(make("p", {}, "Does the model hear how you speak? Comparing the replies …"));
    read(path("api", "runs", message.run, "cues"))
      .then(({ cue_sensitivity: found }) =>
        this.conclude(
          make("h2", {}, "Does the model hear how you speak?"),
          make("p", {}, found?.in_words ?? "No conclusion: the run has no replies."),
          make(
            "p",
            {},
            make("a", { href: `#/runs/${message.run}` }, "Scores next to the published rows, and all takes"),
          ),
        ),
      )
      .catch((error) => this.conclude(make("p", { class: "failure" }, error.message)));
  }

  /** Show the outcome at the top of the window, because the form before it fills a phone. */
  conclude(...content) {
    fill(this.outcome, content);
    this.outcome.scrollIntoView();
  }
}
