// Show a conversation on the page: levels, controls, transcript, and the latencies of its turns.
import { announce, button, fill, make } from "./web/elements.js";
import { turnFigures } from "./talk_turn.js";

const SILENT_DB = -60;
const KEYS = "Space mutes, Escape ends the conversation.";
const MANUAL_KEYS = "Space mutes, Enter ends your turn, Escape ends the conversation.";

/** A conversation, in progress or ended. */
export class Conversation {
  /**
   * @param {function} ask Function that sends a command to the studio.
   * @param {object} request Settings of the conversation; see `connect`.
   */
  constructor(ask, request) {
    this.ask = ask;
    this.request = request;
    this.muted = false;
    this.open = {}; // unfinished transcript line of each side
    this.levels = { user: meter("You"), reply: meter("Reply") };
    this.muting = button("Mute", () => this.mute(), {
      "aria-pressed": "false",
      "aria-keyshortcuts": "Space",
    });
    this.half = button("Mute during replies", () => this.halfDuplex(), { "aria-pressed": "false" });
    this.committing = button("End your turn", () => this.commit(), {
      hidden: true,
      "aria-keyshortcuts": "Enter",
    });
    this.again = button("Reconnect", () => this.ask({ type: "reconnect" }), { hidden: true });
    this.ending = button("End", () => this.ask({ type: "end" }), { "aria-keyshortcuts": "Escape" });
    this.keys = make("p", { class: "note" }, KEYS);
    // Return the focus to the conversation, which handles the keys.
    const release = (event) => event.detail > 0 && this.element.focus();
    this.controls = make(
      "div",
      { class: "talk-controls", click: release },
      this.muting,
      this.committing,
      this.half,
      this.again,
      this.ending,
    );
    this.run = make("p", { class: "talk-run" });
    this.notes = make("div", { class: "talk-notes", role: "status" });
    this.log = make("div", { class: "talk-log", role: "log", "aria-label": "Transcript", tabindex: "0" });
    this.turns = make("div", {
      class: "talk-turns",
      role: "region",
      "aria-label": "Turns, the latest first",
      tabindex: "0",
      hidden: true,
    });
    this.element = this.layOut();
  }

  /** Return the element with the whole conversation. */
  layOut() {
    return make(
      "section",
      { "aria-label": "Conversation", tabindex: "-1" },
      make(
        "div",
        { class: "talk-levels" },
        Object.values(this.levels).map(({ element }) => element),
      ),
      this.controls,
      this.keys,
      this.run,
      this.notes,
      make("div", { class: "talk-columns" }, this.log, this.turns),
    );
  }

  /** Begin once the page is connected; `_streams` are the user's voice and the reply. */
  began({ turn_mode: mode }, _streams) {
    this.committing.hidden = mode !== "manual";
    this.keys.textContent = mode === "manual" ? MANUAL_KEYS : KEYS;
  }

  mute() {
    this.muted = !this.muted;
    this.muting.setAttribute("aria-pressed", String(this.muted));
    announce(this.muted ? "muted" : "not muted");
    this.ask({ type: "mute", on: this.muted });
  }

  halfDuplex() {
    const on = this.half.getAttribute("aria-pressed") !== "true";
    this.half.setAttribute("aria-pressed", String(on));
    this.ask({ type: "half_duplex", on });
  }

  commit() {
    if (!this.committing.hidden) this.ask({ type: "commit" });
  }

  /** Process a message from the studio. */
  receive(message) {
    switch (message.type) {
      case "levels":
        this.levels.user.set(message.user, message.muted ? "muted" : null);
        this.levels.reply.set(message.reply);
        break;
      case "speech":
        this.levels.user.speaks(message.speaking);
        break;
      case "transcript":
        this.hear(message);
        break;
      case "turn":
        this.settle();
        this.figures(message);
        break;
      case "state":
        this.settle();
        this.again.hidden = message.state !== "disconnected";
        if (message.state === "disconnected") this.again.focus();
        break;
      case "scores":
        this.scored(message);
        break;
      case "note":
        this.note(message);
        break;
    }
  }

  hear({ side, text, final }) {
    const line = (this.open[side] ??= this.log.appendChild(
      make("p", { class: side }, make("b", {}, side === "user" ? "you" : "reply"), make("span")),
    ));
    const said = line.querySelector("span");
    said.textContent = final ? text.trim() : said.textContent + text;
    if (final) delete this.open[side];
    if (!said.textContent.trim() && final) line.remove();
    this.log.scrollTop = this.log.scrollHeight;
  }

  /** Show the latencies of a turn, replacing earlier values. */
  figures(message) {
    this.turns.hidden = false;
    const shown = this.turns.querySelector(`[data-number="${message.number}"]`);
    if (shown) shown.replaceWith(turnFigures(message));
    else this.turns.prepend(turnFigures(message));
  }

  /** Begin new lines of the transcript. */
  settle() {
    this.open = {};
  }

  /** Show the scores of a turn by one judge. */
  scored({ judge, text }) {
    if (text) this.note({ about: judge, text });
  }

  note({ about, text }) {
    let note = this.notes.querySelector(`[data-about="${about}"]`);
    if (!note) this.notes.append((note = make("p", { class: "note", "data-about": about })));
    note.textContent = text;
  }

  stored({ run, name }) {
    const page = `/pages/report.html?run=${run}&short=1`;
    fill(
      this.run,
      "Recorded as ",
      make("a", { href: `#/runs/${run}` }, name),
      ". ",
      make("a", { href: page, download: `${name}.html` }, "Save a page with audio and transcript"),
      ".",
    );
    for (const heading of this.turns.querySelectorAll("[data-turn]")) {
      const href = `#/runs/${run}/turns/${encodeURIComponent(heading.dataset.turn)}`;
      fill(heading, make("a", { href }, heading.textContent));
    }
    this.end();
    this.run.querySelector("a").focus();
  }

  /** Clean up after the user has left the view. */
  leave() {}

  end() {
    this.controls.hidden = this.keys.hidden = true;
    for (const level of Object.values(this.levels)) level.set(SILENT_DB);
  }
}

/** Make a level meter for a side. */
export function meter(name) {
  const bar = make("meter", {
    min: SILENT_DB,
    max: 0,
    high: -6,
    optimum: -30,
    value: SILENT_DB,
    "aria-label": `Level: ${name}`,
  });
  const said = make("span", {}, name);
  return {
    element: make("div", { class: "talk-level" }, said, bar),
    set(level, instead) {
      bar.value = level;
      said.textContent = instead ? `${name} (${instead})` : name;
    },
    speaks(speaking) {
      said.toggleAttribute("data-speaks", speaking);
    },
  };
}
