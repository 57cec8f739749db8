// Show a listener's trials: play every reply to the end, then vote.
// The random names of clips and trials do not reveal the run of a reply.
import { path, post } from "./api.js";
import { announce, button, fill, make, problem, unseen } from "./web/elements.js";
import { Sound } from "./listen_sound.js";

const QUESTIONS = { ab: "Which reply is better?", abx: "Which reply is X?", rating: "Rate the reply.", mushra: "Rate each reply." };
const CHOICES = {
  ab: [
    ["1", "A", "A is better"],
    ["0", "tie", "No preference"],
    ["2", "B", "B is better"],
  ],
  abx: [
    ["1", "A", "X is A"],
    ["2", "B", "X is B"],
  ],
  rating: [],
  mushra: [],
};
const HINTS = {
  ab: "Keys: left and right arrow play A and B, space pauses; 1 votes for A, 2 for B, 0 for no preference; U undoes the last vote.",
  abx: "Keys: left and right arrow play A and B, down arrow plays X, space pauses; 1 votes for A, 2 for B; U undoes the last vote.",
  rating:
    "Keys: left arrow plays the reply, space pauses; 1 to 5 rate the next scale, Enter votes; U undoes the last vote.",
  mushra:
    "Keys: A, B, C … play a reply from the current position, R plays the reference, space pauses, L repeats; Enter votes.",
};
const QUALITIES = "0–20 bad · 20–40 poor · 40–60 fair · 60–80 good · 80–100 excellent; 100: like the reference";
const TOP = 100;
const LAST = "That was the last trial. Thank you.";
const ARROWS = { ArrowLeft: "A", ArrowRight: "B", ArrowDown: "X", ArrowUp: "user" };

export async function show(place, { test, signal }) {
  const session = new ListeningSession(place, test, signal);
  session.askName();
  return "Listen";
}

class ListeningSession {
  constructor(place, test, signal) {
    Object.assign(this, { place, test, signal, sounds: new Map(), ratings: {} });
    Object.assign(this, { trial: null, voting: null, busy: false }); // `trial` is null until its clips are loaded
    this.failure = make("div", {});
    this.todo = make("p", { class: "note" });
    // Letter keys while several replies are rated side by side.
    this.letters = {
      ...Object.fromEntries([..."abcdefghij"].map((letter) => [letter, () => this.play(letter.toUpperCase())])),
      r: () => this.play("reference"),
      l: () => this.repeatBox.click(),
    };
    document.addEventListener("keydown", (event) => this.press(event), { signal });
    signal.addEventListener("abort", () => this.silence());
  }

  askName() {
    const name = make("input", {
      name: "listener",
      required: true,
      maxlength: 60,
      autocomplete: "name",
      value: localStorage.getItem("listener") ?? "",
    });
    const submit = (event) => {
      event.preventDefault();
      localStorage.setItem("listener", name.value);
      this.advance(() => this.next(name.value));
    };
    fill(
      this.place,
      make("h1", {}, "Listen"),
      make(
        "form",
        { class: "new-test", submit },
        make("label", {}, "Your name", name),
        make(
          "p",
          { class: "note" },
          "Votes are saved under this name. To continue later, enter the same name.",
        ),
        make("button", { type: "submit" }, "Start"),
      ),
      this.failure,
    );
    name.focus();
  }

  next(listener) {
    return post(path("api", "listen", this.test, "next"), { listener });
  }

  /** Send a request that returns the next trial, and show that trial. */
  async advance(ask) {
    if (this.busy) return;
    this.busy = true;
    fill(this.failure);
    try {
      const where = await ask();
      this.silence();
      this.where = where;
      this.ratings = {};
      if (where.trial) await this.load(where.trial);
    } catch (error) {
      if (!this.signal.aborted) fill(this.failure, problem(error));
    } finally {
      this.busy = false;
    }
    if (!this.signal.aborted && this.where && !this.voting) this.draw();
  }

  async load(trial) {
    const named = [
      ...trial.replies.map(({ label, sound }) => ({
        label,
        title: trial.replies.length === 1 ? "the reply" : label,
        sound,
        needed: true,
      })),
      { label: "user", title: "the user's speech", sound: trial.user },
      { label: "reference", title: "the reference reply", sound: trial.reference },
    ].filter(({ sound }) => sound);
    const loaded = await Promise.all(
      named.map(async (each) => {
        const response = await fetch(each.sound, { signal: this.signal }).catch(() => null);
        const blob = response?.ok && (await response.blob().catch(() => null));
        if (!blob) throw new Error(`The audio of ${each.title} could not be loaded.`);
        return { ...each, blob };
      }),
    );
    for (const each of loaded) this.sounds.set(each.label, new Sound(each, () => this.update()));
    this.trial = trial;
  }

  silence() {
    this.trial = this.voting = null;
    for (const sound of this.sounds.values()) sound.close();
    this.sounds.clear();
  }

  play(label) {
    const sound = this.sounds.get(label);
    if (!sound) return;
    const before = [...this.sounds.values()].find((other) => other !== sound && !other.audio.paused);
    for (const other of this.sounds.values()) if (other !== sound) other.audio.pause();
    this.last = label;
    // BS.1534: listeners switch between signals at the same position.
    if (before && this.where.kind === "mushra" && before.label !== "user" && label !== "user")
      sound.audio.currentTime = before.audio.currentTime % sound.audio.duration;
    sound.toggle();
  }

  repeat(repeats) {
    for (const sound of this.sounds.values()) sound.audio.loop = repeats;
    this.repeats = repeats;
    announce(repeats ? "Clips repeat." : "Clips do not repeat.");
  }

  draw() {
    const { done, total, kind, listener } = this.where;
    const { trial } = this;
    const lost = this.where.trial && !trial;
    const undo = button("Undo the last vote", () => this.undo(), {
      disabled: !done,
      "aria-keyshortcuts": "U",
    });
    const bar = make(
      "label",
      { class: "progress" },
      `${done} of ${total} votes by ${listener}`,
      make("progress", { max: total, value: done }),
    );
    const results = make("a", { href: `#${path("listen", this.test, "results")}` }, "Results");
    if (!trial) {
      const again = () => this.advance(() => this.next(listener));
      fill(
        this.place,
        make("h1", { tabindex: -1 }, lost ? "The next trial could not be loaded." : LAST),
        bar,
        this.failure,
        make("p", { class: "actions" }, lost && button("Try again", again), undo, results),
      );
    } else {
      this.last = this.sounds.has("A") ? "A" : null;
      const context = [this.sounds.get("user"), this.sounds.get("reference")].filter(Boolean);
      this.voting = this.votes(kind, trial);
      fill(
        this.place,
        make("h1", { tabindex: -1 }, QUESTIONS[kind], unseen(` ${done + 1} of ${total}`)),
        bar,
        trial.words && make("p", { class: "case" }, make("b", {}, "The user said: "), trial.words),
        trial.cue && make("p", { class: "case" }, make("b", {}, "How it was said: "), trial.cue),
        context.length > 0 &&
          make(
            "div",
            { class: "actions" },
            context.map((sound) => this.card(sound)),
          ),
        make(
          "div",
          { class: "replies" },
          trial.replies.map(({ label }) => this.card(this.sounds.get(label))),
        ),
        this.voting,
        this.todo,
        this.failure,
        make("p", { class: "actions" }, undo),
        make("p", { class: "note" }, HINTS[kind]),
      );
      this.update();
    }
    this.place.querySelector("h1").focus();
    if (!lost) announce(trial ? `${QUESTIONS[kind]} ${done + 1} of ${total}` : LAST);
  }

  card(sound) {
    sound.button = button("", () => this.play(sound.label), { class: "play" });
    sound.bar = make("progress", { max: 1, value: 0, "aria-label": `Played of ${sound.title}` });
    sound.state = make("small", {});
    return make(
      "div",
      { class: `heard-sound ${sound.needed ? "needed" : ""}`, "data-label": sound.label },
      sound.button,
      sound.bar,
      sound.state,
    );
  }

  votes(kind, trial) {
    if (kind === "mushra") return this.sliders(trial);
    if (kind !== "rating") {
      return make(
        "div",
        { class: "votes", role: "group", "aria-label": QUESTIONS[kind] },
        CHOICES[kind].map(([key, value, text]) =>
          button(text, () => this.vote(value), { "data-choice": value, "aria-keyshortcuts": key }),
        ),
      );
    }
    const scales = trial.scales.map(({ score, title, question, anchors, note }) =>
      make(
        "fieldset",
        { class: "scale" },
        make("legend", {}, title),
        make("p", { class: "note" }, question),
        anchors.map((anchor, index) =>
          make(
            "label",
            {},
            make("input", {
              type: "radio",
              name: score,
              value: index + 1,
              change: () => this.rate(score, index + 1),
            }),
            ` ${index + 1}: ${anchor}`,
          ),
        ),
        note && make("p", { class: "note" }, note),
      ),
    );
    return make(
      "div",
      { class: "votes ratings" },
      scales,
      button("Vote", () => this.vote(""), { "data-choice": "", "aria-keyshortcuts": "Enter" }),
    );
  }

  sliders(trial) {
    const scales = trial.replies.map(({ label }) => {
      const value = make("output", {}, "–");
      const slider = make("input", {
        type: "range",
        name: label,
        min: 0,
        max: TOP,
        value: TOP / 2,
        class: "unset",
        "aria-valuetext": "not rated",
        input: (event) => {
          slider.classList.remove("unset");
          slider.removeAttribute("aria-valuetext");
          value.textContent = event.target.value;
          this.rate(label, Number(event.target.value));
        },
      });
      return make("label", { class: "slider" }, `Reply ${label}`, value, slider);
    });
    const repeat = make("input", { type: "checkbox", change: (event) => this.repeat(event.target.checked) });
    repeat.checked = Boolean(this.repeats);
    this.repeatBox = repeat;
    if (this.repeats) this.repeat(true);
    return make(
      "div",
      { class: "votes ratings mushra" },
      make("p", { class: "note" }, QUALITIES, ". One of the replies is the reference: give at least one of them 100."),
      scales,
      make("label", {}, repeat, " Repeat clips"),
      button("Vote", () => this.vote(""), { "data-choice": "", "aria-keyshortcuts": "Enter" }),
    );
  }

  rate(score, rating) {
    this.ratings[score] = rating;
    this.update();
  }

  get ready() {
    const heard = [...this.sounds.values()].every((sound) => !sound.needed || sound.heard);
    if (this.where.kind !== "mushra")
      return heard && (this.trial.scales ?? []).every(({ score }) => this.ratings[score]);
    const rated = this.trial.replies.map(({ label }) => this.ratings[label]);
    return heard && !rated.includes(undefined) && Math.max(...rated) === TOP;
  }

  /** Return what is required before a vote, as a sentence; empty if the listener can vote. */
  get missing() {
    const unheard = [...this.sounds.values()].filter((sound) => sound.needed && !sound.heard);
    if (unheard.length) return `Listen to ${listed(unheard.map((sound) => sound.title))} to the end first.`;
    if (this.ready) return "";
    return this.where.kind === "mushra"
      ? "Rate every reply first; give at least one of them 100."
      : "Give a rating on every scale first.";
  }

  update() {
    if (!this.voting) return;
    fill(this.todo, this.missing);
    for (const sound of this.sounds.values()) sound.draw();
    for (const each of this.voting.querySelectorAll("button")) each.disabled = !this.ready;
  }

  vote(choice) {
    const { trial } = this;
    if (!trial) return undefined; // the next trial is loading
    if (!this.ready) return announce(this.missing);
    const played = Object.fromEntries(
      trial.replies.map(({ label }) => [label, this.sounds.get(label).played]),
    );
    return this.send({ trial: trial.id, choice, ratings: this.ratings, played });
  }

  /** Send a vote. If its trial is no longer open, report this and continue with the next trial. */
  async send(vote) {
    let lost = false;
    const before = this.where;
    await this.advance(async () => {
      try {
        return await post("/api/listen/votes", vote);
      } catch (error) {
        if (error.kind !== "missing") throw error;
        const where = await this.next(before.listener);
        lost = where.done === before.done; // otherwise, the vote was saved but its response was lost
        return where;
      }
    });
    if (lost && !this.signal.aborted)
      this.failure.prepend(problem({ message: "The vote was not saved because its trial was no longer open." }));
  }

  undo() {
    if (!this.where.done) return announce("There is no vote to undo.");
    return this.advance(() =>
      post(path("api", "listen", this.test, "undo"), { listener: this.where.listener }),
    );
  }

  press(event) {
    if (!this.where || this.busy || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const on = event.target.closest?.("input, select, textarea, button, a, summary");
    const radio = on?.type === "radio" || on?.type === "range" || on?.type === "checkbox";
    if (on && !radio && !["BUTTON", "A"].includes(on.tagName)) return;
    const key = event.key.toLowerCase();
    if (key === "u") this.undo();
    else if (!this.trial) return;
    else if (this.where.kind === "mushra" && this.letters[key]) this.letters[key]();
    else if (this.where.kind === "mushra" && event.key in ARROWS) return; // arrow keys move a slider
    else if (event.key in ARROWS && !radio) this.play(ARROWS[event.key]);
    else if (event.key === " " && (!on || on.type === "range")) this.play(this.last);
    else if (event.key === "Enter" && !CHOICES[this.where.kind].length && (!on || radio)) this.vote("");
    else if (/^[0-9]$/.test(key)) this.digit(key);
    else return;
    event.preventDefault();
  }

  digit(key) {
    if (this.where.kind === "mushra") return;
    if (this.where.kind !== "rating") {
      const found = CHOICES[this.where.kind].find(([digit]) => digit === key);
      if (found) this.vote(found[1]);
      return;
    }
    const focused = document.activeElement.closest?.("fieldset.scale");
    const scale =
      focused ??
      [...this.voting.querySelectorAll("fieldset.scale")].find(
        (each) => !each.querySelector("input:checked"),
      );
    const input = scale?.querySelector(`input[value="${key}"]`);
    if (!input) return;
    input.checked = true;
    this.rate(input.name, Number(key));
    announce(`${scale.querySelector("legend").textContent}: ${key}`);
  }
}

/** Join titles: "A", "A and B", "A, B and C". */
function listed(titles) {
  return new Intl.ListFormat("en-GB").format(titles);
}
