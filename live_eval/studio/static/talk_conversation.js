// Show a conversation on the page: levels, controls, transcript, and the latencies of its turns.
import { announce, button, fill, make } from "./web/elements.js";
import { Sound } from "./stage_sound.js";
import { EndpointCards } from "./talk_endpoints.js";
import { turnFigures } from "./talk_turn.js";

const SILENT_DB = -60;
const SAME_MS = 400; // several endpoints report the begin of one utterance at nearly the same time
/** The level of a muted microphone. */
export const MUTED_DB = -90;
const KEYS = "Space mutes, Escape ends the conversation.";
const MANUAL_KEYS = "Space mutes, Enter ends your turn, Escape ends the conversation.";

/** A conversation, in progress or ended. */
export class Conversation {
  /**
   * @param {function} ask Function that sends a command to the studio.
   * @param {object} request Settings of the conversation; see `connect`.
   * @param {object} levelRule The studio's rule by which a voice is audible.
   */
  constructor(ask, request, levelRule) {
    this.ask = ask;
    this.request = request;
    this.levelRule = levelRule;
    this.muted = false;
    this.isMuted = false; // as reported by the studio, which also mutes during replies
    this.cards = null; // only with several endpoints
    this.sound = null; // while the page analyses the voices
    this.together = make("div");
    this.expiries = {}; // timers that remove notes
    this.opensHalf = request.half_duplex; // until the studio is asked
    this.open = {}; // unfinished transcript line of each side and endpoint
    this.exchanges = {}; // the last utterance of each endpoint, and the replies to it
    this.exchange = null; // the last of all
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
    this.changing = this.leaving = false; // whether the settings are to be changed, and the studio was asked to end
    this.pending = new Set(); // endpoints with an unfinished turn
    this.change = button("Change settings", () => this.changeSettings());
    this.ending = button("End", () => this.ask({ type: "end" }), { "aria-keyshortcuts": "Escape" });
    this.keys = make("p", { class: "note talk-keys" }, KEYS);
    // Return the focus to the conversation, which handles the keys.
    const release = (event) => event.detail > 0 && this.element.focus();
    this.controls = make(
      "div",
      { class: "talk-controls", click: release },
      this.muting,
      this.committing,
      this.half,
      this.again,
      this.change,
      this.ending,
    );
    this.run = make("p", { class: "talk-run" });
    this.warnings = make("div", { class: "talk-warnings", role: "alert" });
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
      this.warnings,
      this.notes,
      this.together,
      make("div", { class: "talk-columns" }, this.log, this.turns),
    );
  }

  /** Begin once the page is connected; `streams` are the user's voice and the reply. */
  began({ turn_mode: mode, endpoints, judges }, streams) {
    this.committing.hidden = mode !== "manual";
    this.keys.textContent = mode === "manual" ? MANUAL_KEYS : KEYS;
    if (!endpoints) return;
    this.cards = new EndpointCards(endpoints, judges, mode === "manual", this.levelRule, this.ask);
    this.together.replaceWith(this.cards.element);
    this.keys.textContent += ` ${this.cards.keys}`;
    this.analyse(streams);
  }

  /** Analyse both voices, from which the states follow sooner than from the studio's messages. */
  analyse(streams) {
    this.sound = new Sound((block) => this.take(block));
    this.sound.listen(streams).catch((error) => {
      this.note({ about: "sound", text: `The voices cannot be analysed: ${error.message}` });
    });
  }

  /** Process 10 ms of both voices. */
  take({ levels: [user, reply] }) {
    this.cards?.follow(this.silent ? MUTED_DB : user, reply);
  }

  /** Whether the endpoint hears silence. */
  get silent() {
    return this.muted || this.isMuted;
  }

  /** Handle a key that Talk does not handle; return whether it was handled. */
  press(key) {
    return this.cards?.press(key) ?? false;
  }

  mute() {
    this.muted = !this.muted;
    this.muting.setAttribute("aria-pressed", String(this.muted));
    announce(this.muted ? "muted" : "not muted");
    this.ask({ type: "mute", on: this.muted });
  }

  halfDuplex() {
    this.opensHalf = false;
    const on = this.half.getAttribute("aria-pressed") !== "true";
    this.half.setAttribute("aria-pressed", String(on));
    this.ask({ type: "half_duplex", on });
  }

  commit() {
    if (this.committing.hidden) return;
    this.ask({ type: "commit" });
    this.cards?.commit();
  }

  /** End the conversation after this turn, to start another one with other settings. */
  changeSettings() {
    this.changing = true;
    this.note({ about: "change", text: "The conversation ends after this turn; then change the settings and start again." });
    this.endIfChanging();
  }

  endIfChanging() {
    if (!this.changing || this.leaving || this.pending.size) return;
    this.leaving = true; // a second `end` would skip the scores
    this.ask({ type: "end" });
  }

  /** Process a message from the studio. */
  receive(message) {
    this.cards?.receive(message);
    switch (message.type) {
      case "levels":
        this.isMuted = message.muted;
        this.levels.user.set(message.user, message.muted ? "muted" : null);
        this.levels.reply.set(message.reply);
        break;
      case "speech":
        this.levels.user.speaks(message.speaking);
        if (message.speaking) this.begins(message.endpoint ?? 0);
        break;
      case "transcript":
        this.hear(message);
        break;
      case "turn":
        this.settle(message.endpoint);
        this.figures(message);
        this.finished(message.endpoint ?? 0);
        break;
      case "state":
        if (this.opensHalf) this.halfDuplex();
        this.settle(message.endpoint);
        this.again.hidden = this.cards ? !this.cards.incomplete : message.state !== "disconnected";
        if (message.state === "disconnected" && !this.cards) this.again.focus();
        if (message.state === "disconnected") this.finished(message.endpoint ?? 0);
        break;
      case "scores":
        if (!this.cards) this.scored(message);
        break;
      case "note":
        this.note(message);
        break;
    }
  }

  /** An endpoint hears an utterance, with which a turn begins. */
  begins(endpoint) {
    this.pending.add(endpoint);
    this.exchanges[endpoint] = this.exchangeAt(performance.now());
  }

  /** An endpoint's turn has ended. */
  finished(endpoint) {
    this.pending.delete(endpoint);
    this.endIfChanging();
  }

  /** Return the exchange whose utterance begins now, which another endpoint may have reported already. */
  exchangeAt(now) {
    if (this.exchange && now - this.exchange.at < SAME_MS) return this.exchange;
    const [user, replies] = [make("div"), make("div")];
    this.log.append(user, replies);
    this.exchange = { at: now, user, replies, teller: null };
    return this.exchange;
  }

  /** Show a part of the transcript: the user's line first, by the endpoint that the room hears if it has one. */
  hear({ side, text, final, endpoint = 0 }) {
    const exchange = (this.exchanges[endpoint] ??= this.exchangeAt(performance.now()));
    if (side === "user" && exchange.teller !== endpoint) {
      if (exchange.teller !== null && endpoint !== (this.cards?.heard ?? 0)) return;
      exchange.user.replaceChildren();
      delete this.open[`user${exchange.teller}`];
      exchange.teller = endpoint;
    }
    const key = `${side}${endpoint}`;
    const replies = this.cards?.cards[endpoint].label ?? "reply";
    const line = (this.open[key] ??= (side === "user" ? exchange.user : exchange.replies).appendChild(
      make("p", { class: side }, make("b", {}, side === "user" ? "you" : replies), make("span")),
    ));
    const said = line.querySelector("span");
    said.textContent = final ? text.trim() : said.textContent + text;
    if (final) delete this.open[key];
    if (!said.textContent.trim() && final) line.remove();
    this.log.scrollTop = this.log.scrollHeight;
  }

  /** Show the latencies of a turn, replacing earlier values. */
  figures(message) {
    this.turns.hidden = false;
    const { number, endpoint = 0 } = message;
    const shown = this.turns.querySelector(`[data-number="${number}"][data-endpoint="${endpoint}"]`);
    const figures = turnFigures(message, this.cards?.cards[endpoint].label);
    figures.dataset.endpoint = endpoint;
    if (shown) shown.replaceWith(figures);
    else this.turns.prepend(figures);
  }

  /** Begin new lines of the transcript, of one endpoint or of all. */
  settle(endpoint) {
    for (const side of ["user", "reply"]) delete this.open[`${side}${endpoint ?? 0}`];
    if (endpoint === undefined) this.open = {};
  }

  /** Show the scores of a turn by one judge. */
  scored({ judge, text }) {
    if (text) this.note({ about: judge, text });
  }

  /** Show a note in place of an earlier one; remove it after `seconds`, or without text. Urgent ones are large. */
  note({ about, text, urgent, seconds }) {
    const place = urgent ? this.warnings : this.notes;
    let note = place.querySelector(`[data-about="${about}"]`);
    if (!text) return note?.remove();
    if (!note) place.append((note = make("p", { class: urgent ? "failure" : "note", "data-about": about })));
    note.textContent = text;
    clearTimeout(this.expiries[about]);
    if (seconds) this.expiries[about] = setTimeout(() => note.remove(), seconds * 1000);
  }

  /** The microphone was opened again. */
  hears(stream) {
    this.sound?.connect(0, stream);
  }

  stored({ runs, ...single }) {
    const all = runs ?? [single];
    const spoken = all.filter(({ turns }) => turns !== 0).map(({ run }) => `run=${run}`);
    const page = `/pages/report.html?${spoken.join("&")}&short=1`;
    fill(
      this.run,
      all.map(({ run, name }) => ["Recorded as ", make("a", { href: `#/runs/${run}` }, name), ". "]),
      spoken.length > 0 &&
        make("a", { href: page, download: `${all[0].name}.html` }, "Save a page with audio and transcript"),
    );
    for (const heading of this.turns.querySelectorAll("[data-turn]")) {
      const { run } = all[heading.closest("[data-endpoint]").dataset.endpoint];
      const href = `#/runs/${run}/turns/${encodeURIComponent(heading.dataset.turn)}`;
      fill(heading, make("a", { href }, heading.textContent));
    }
    if (runs) this.cards.reveal(runs);
    this.note({ about: "echo", urgent: true, text: "" });
    this.note({ about: "change", text: "" });
    this.end();
    this.run.querySelector("a").focus();
  }

  /** Clean up after the user has left the view. */
  leave() {
    this.sound?.close();
  }

  /** The connection to the studio is lost; Talk shows why. */
  lost(_why) {
    this.end();
  }

  end() {
    this.sound?.close();
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
