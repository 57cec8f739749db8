// Talk to an endpoint with the browser's microphone: levels, what both sides say, and each turn's latencies.
import { read } from "./api.js";
import { announce, button, choice, fill, make, problem } from "./dom.js";
import { milliseconds, number, words } from "./format.js";
import { connect } from "./talk_connection.js";

const STYLE = "/static/talk.css";
const SILENT_DB = -60;
const KEYS = "Space mutes, Escape ends the conversation.";
const MANUAL_KEYS = "Space mutes, Enter ends your turn, Escape ends the conversation.";
const STATES = {
  idle: "",
  opening: "opening the microphone …",
  starting: "connecting to the endpoint …",
  talking: "ready: speak",
  disconnected: "disconnected",
  ended: "ended; the run is being stored …",
  stored: "ended",
};

export async function show(place, { signal }) {
  await styled();
  const { endpoints, default: usual, taken } = await read("/api/talk", { signal });
  const talk = new Talk(endpoints, usual, taken);
  fill(place, make("h1", {}, "Talk"), talk.element);
  signal.addEventListener("abort", () => talk.leave());
  addEventListener("pagehide", () => talk.leave(), { signal });
  addEventListener("keydown", (event) => talk.key(event), { signal });
  return "Talk";
}

function styled() {
  if (document.querySelector(`link[href="${STYLE}"]`)) return undefined;
  return new Promise((done) =>
    document.head.append(make("link", { rel: "stylesheet", href: STYLE, load: done, error: done })),
  );
}

/** The view: a form before the conversation, then the conversation. */
class Talk {
  constructor(endpoints, usual, taken) {
    this.line = null;
    this.setup = new Setup(endpoints, usual, (request) => this.start(request));
    this.state = make("p", { class: "talk-state", role: "status", "data-state": "idle" });
    this.alert = make(
      "div",
      {},
      taken && make("p", { class: "note" }, "Another tab is talking: end its conversation first."),
    );
    this.place = make("div");
    this.element = make("div", { class: "talk" }, this.setup.element, this.state, this.alert, this.place);
  }

  async start(request) {
    if (this.line) return;
    this.failure = null;
    fill(this.alert);
    this.show("opening");
    this.setup.disable(true);
    this.line = { send() {}, close() {} }; // until the connection is there
    this.conversation = new Conversation((message) => this.ask(message));
    fill(this.place, this.conversation.element);
    try {
      const line = await connect(request, { news: (news) => this.news(news), lost: (why) => this.lost(why) });
      if (!this.line) return line.close(); // the user has left meanwhile
      this.line = line;
      this.conversation.began(line.began);
      this.conversation.element.focus();
    } catch (error) {
      fill(this.place);
      this.over("idle", error);
    }
    return undefined;
  }

  /** Ask the studio for something. */
  ask(message) {
    this.line?.send(message);
  }

  news(news) {
    if (news.type === "state") {
      this.show(news.state);
      fill(
        this.alert,
        news.failure && problem({ message: `${words(news.failure.kind)}: ${news.failure.message}` }),
      );
    } else if (news.type === "stored") {
      this.over("stored");
      this.conversation.stored(news);
      return;
    } else if (news.type === "failed") {
      this.failure = news;
      fill(this.alert, problem(news));
    }
    this.conversation.news(news);
  }

  show(state) {
    this.state.dataset.state = state;
    this.state.textContent = STATES[state] ?? state;
  }

  lost(why) {
    this.over("stored", this.failure ?? { message: why });
    this.conversation.end();
  }

  /** The conversation has ended, or has not begun. */
  over(state, error) {
    this.leave();
    this.setup.disable(false);
    this.show(state);
    if (error) fill(this.alert, problem(error));
  }

  leave() {
    this.line?.close();
    this.line = null;
  }

  key(event) {
    if (!this.line || event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
    const typing = event.target.closest("input, textarea, select");
    const pressing = event.target.closest("button, a, summary");
    if (event.key === "Escape") this.ask({ type: "end" });
    else if (typing || pressing) return;
    else if (event.key === " ") this.conversation.mute();
    else if (event.key === "Enter") this.conversation.commit();
    else return;
    event.preventDefault();
  }
}

/** Which endpoint to talk to. */
class Setup {
  constructor(endpoints, usual, start) {
    this.endpoints = endpoints;
    this.url = make("input", {
      type: "url",
      name: "base_url",
      placeholder: "the endpoint's own",
      autocomplete: "off",
    });
    this.model = make("input", { name: "model", autocomplete: "off" });
    this.needs = make("p", { class: "note" });
    this.modes = make("div");
    const options = endpoints.map(({ name, missing, needs_base_url: url }) => [
      name,
      `${name}${missing ? ` (missing: ${missing})` : url ? " (needs a URL)" : ""}`,
    ]);
    const first = endpoints.find(({ name }) => name === usual) ?? endpoints[0];
    this.element = make(
      "form",
      { class: "talk-setup", submit: (event) => (event.preventDefault(), start(this.request())) },
      (this.fields = make(
        "fieldset",
        {},
        make("legend", {}, "Endpoint"),
        choice("Endpoint", "endpoint", options, first.name, (name) => this.choose(name)),
        this.modes,
        make("label", {}, "Model", this.model),
        make("label", {}, "URL", this.url),
        make("button", { class: "talk-start" }, "Start"),
      )),
      this.needs,
      make(
        "p",
        { class: "note" },
        "Wear headphones: a microphone that hears the reply interrupts it. The conversation is recorded as a run.",
      ),
    );
    this.choose(first.name);
  }

  choose(name) {
    this.endpoint = this.endpoints.find((each) => each.name === name);
    const { turn_modes: modes, missing, needs_base_url: url, model, base_url: own, title } = this.endpoint;
    this.mode = modes[0];
    fill(
      this.modes,
      choice(
        "Turns end by",
        "mode",
        modes.map((mode) => [mode, words(mode)]),
        this.mode,
        (mode) => (this.mode = mode),
      ),
    );
    this.url.required = url;
    this.url.value = "";
    this.url.placeholder = url ? "ws://127.0.0.1:8000" : (own ?? "started by the studio");
    this.model.value = "";
    this.model.placeholder = model ?? "";
    this.needs.textContent = missing
      ? `${title}: ${missing} is missing where the studio runs. A server on this machine needs none.`
      : title;
  }

  request() {
    const given = {
      name: this.endpoint.name,
      base_url: this.url.value.trim(),
      model: this.model.value.trim(),
    };
    const endpoint = Object.fromEntries(Object.entries(given).filter(([, value]) => value));
    return { endpoint, turns: { mode: this.mode } };
  }

  disable(off) {
    this.fields.disabled = off;
  }
}

/** A conversation under way, or one that has ended. */
class Conversation {
  constructor(ask) {
    this.ask = ask;
    this.muted = false;
    this.open = {}; // the line that each side is saying
    this.levels = { user: meter("You"), reply: meter("Reply") };
    this.muting = button("Mute", () => this.mute(), {
      "aria-pressed": "false",
      "aria-keyshortcuts": "Space",
    });
    this.half = button("Mute while the reply sounds", () => this.halfDuplex(), { "aria-pressed": "false" });
    this.committing = button("End your turn", () => this.commit(), {
      hidden: true,
      "aria-keyshortcuts": "Enter",
    });
    this.again = button("Reconnect", () => this.ask({ type: "reconnect" }), { hidden: true });
    this.ending = button("End", () => this.ask({ type: "end" }), { "aria-keyshortcuts": "Escape" });
    this.keys = make("p", { class: "note" }, KEYS);
    // After a click the keys are the conversation's again.
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
    this.turns = make("div", { class: "talk-turns" });
    this.element = make(
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

  began({ turn_mode: mode }) {
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

  news(news) {
    switch (news.type) {
      case "levels":
        this.levels.user.set(news.user, news.muted ? "muted" : null);
        this.levels.reply.set(news.reply);
        break;
      case "speech":
        this.levels.user.speaks(news.speaking);
        break;
      case "transcript":
        this.hear(news);
        break;
      case "turn":
        this.settle();
        this.figures(news);
        break;
      case "state":
        this.settle();
        this.again.hidden = news.state !== "disconnected";
        if (news.state === "disconnected") this.again.focus();
        break;
      case "note":
        this.note(news);
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

  /** Show a turn's figures; those that come again, with what was late, replace the first ones. */
  figures(news) {
    const shown = this.turns.querySelector(`[data-number="${news.number}"]`);
    if (shown) shown.replaceWith(turn(news));
    else this.turns.prepend(turn(news));
  }

  /** What is said from now on begins new lines. */
  settle() {
    this.open = {};
  }

  note({ about, text }) {
    let note = this.notes.querySelector(`[data-about="${about}"]`);
    if (!note) this.notes.append((note = make("p", { class: "note", "data-about": about })));
    note.textContent = text;
  }

  stored({ run, name }) {
    fill(this.run, "Recorded as ", make("a", { href: `#/runs/${run}` }, name), ".");
    for (const heading of this.turns.querySelectorAll("[data-turn]")) {
      const href = `#/runs/${run}/turns/${encodeURIComponent(heading.dataset.turn)}`;
      fill(heading, make("a", { href }, heading.textContent));
    }
    this.end();
    this.run.querySelector("a").focus();
  }

  end() {
    this.controls.hidden = this.keys.hidden = true;
    for (const level of Object.values(this.levels)) level.set(SILENT_DB);
  }
}

function meter(name) {
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

/** A turn's figures: from the end of the user's speech to the reply's first sound, step by step. */
function turn({
  number: count,
  turn: id,
  failure,
  voice_to_voice_ms: total,
  why_not: reason,
  error_ms: error,
  steps,
  barge_in_stop_ms: stop,
  after_ms: after,
}) {
  const shown = steps.filter(({ ms }) => ms !== 0);
  const whole = shown.reduce((sum, { ms }) => sum + Math.max(0, ms), 0) || 1;
  let begin = 0;
  const rows = shown.map(({ name, ms }) => {
    const bar = make("div", { class: "talk-bar" });
    bar.style.marginLeft = `${(100 * begin) / whole}%`;
    bar.style.width = `${(100 * Math.max(0, ms)) / whole}%`;
    begin += Math.max(0, ms);
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      make("td", { class: "talk-bars" }, bar),
      make("td", { class: "figure" }, milliseconds(ms)),
    );
  });
  const summary = failure
    ? make("p", { class: "failure" }, `${words(failure.kind)}: ${failure.message}`)
    : make(
        "p",
        {},
        total === null
          ? `No voice to voice latency: ${reason}.`
          : `Voice to voice ${number(total)} ± ${number(error)} ms.`,
      );
  return make(
    "section",
    { class: "talk-turn", "aria-label": `Turn ${count}`, "data-number": count, "data-after-ms": after },
    make("h2", { "data-turn": id }, `Turn ${count}`),
    summary,
    stop !== null && make("p", {}, `The reply stopped ${milliseconds(stop)} after you spoke over it.`),
    rows.length > 0 &&
      make(
        "table",
        {},
        make("caption", { class: "unseen" }, `Latency of turn ${count} by step`),
        make("tbody", {}, rows),
      ),
  );
}
