// Show voice to voice on a fixed scale: the current turn, and the distribution of the conversation so far.
import { fill, make } from "./web/elements.js";
import { counted, number } from "./web/format.js";
import { SCALE_MS, UNCERTAIN, share } from "./talk_turn.js";

const TICK_MS = 500;
const FEWEST = 4; // minimum number of turns for quartiles
const NOTICEABLE_MS = 100; // by which a room waits longer, because of the browser's delay

/** Return a linearly interpolated quantile of sorted numbers. */
function quantile(sorted, part) {
  const place = part * (sorted.length - 1);
  const below = sorted[Math.floor(place)];
  return below + (sorted[Math.ceil(place)] - below) * (place - Math.floor(place));
}

export class VoiceToVoice {
  constructor() {
    this.turns = new Map(); // latencies by turn number
    this.errors = new Map(); // error bars by turn number
    this.failed = new Map(); // in words by turn number
    this.rooms = new Map(); // waiting times as heard in the room by turn number
    this.waited = null; // of the current turn
    this.waiting = false;
    this.heading = make("h2", {}, "Voice to voice");
    this.large = make("p", { class: "stage-figure" }, "–");
    this.bar = make("div", { class: "stage-bar" });
    this.spread = make("div", { class: "stage-spread", hidden: true });
    this.median = make("div", { class: "stage-median", hidden: true });
    this.dots = make("div");
    this.words = make("p", { class: "stage-so-far" }, "no turn yet");
    const ticks = Array.from({ length: SCALE_MS / TICK_MS + 1 }, (_, index) => {
      const tick = make("span", {}, index % 2 ? "" : `${(index * TICK_MS) / 1000} s`);
      tick.style.left = `${share(index * TICK_MS)}%`;
      return tick;
    });
    this.element = make(
      "section",
      { class: "stage-latency", "aria-label": "Voice to voice" },
      this.heading,
      this.large,
      make(
        "div",
        { class: "stage-scale", "aria-hidden": "true" },
        make("div", { class: "stage-lane" }, this.bar, this.spread, this.median, this.dots),
        make("div", { class: "stage-ticks" }, ticks),
      ),
      this.words,
    );
  }

  /** Show that the user is waiting for a reply, with the time as heard in the room. */
  waits(ms) {
    if (!this.waiting) {
      this.waiting = true;
      this.element.toggleAttribute("data-waits", true);
      this.bar.removeAttribute("data-beyond");
      fill(this.large, make("small", {}, "waiting …"));
    }
    this.bar.style.width = `${share(ms)}%`;
    this.waited = ms;
  }

  /** Show that the wait is over; if a reply begins, its latency is known at its end. */
  waitEnds(replies) {
    if (!this.element.hasAttribute("data-waits")) return;
    if (!replies && this.waiting) this.waited = null; // no reply has begun
    this.waiting = false;
    if (replies) fill(this.large, make("small", {}, "measuring …"));
    else this.clear();
  }

  clear() {
    this.waiting = false;
    this.element.removeAttribute("data-waits");
    this.bar.removeAttribute("data-beyond");
    fill(this.large, "–");
    this.bar.style.width = 0;
  }

  /** Show the latency of a turn as measured by the studio. */
  show({ number: turn, voice_to_voice_ms: ms, error_ms: error, failure, why_not: reason, uncertain }) {
    this.rooms.set(turn, this.waited ?? this.rooms.get(turn) ?? 0);
    this.waited = null;
    this.clear();
    for (const seen of [this.turns, this.errors, this.failed]) seen.delete(turn); // an update may have failed
    if (failure) this.failed.set(turn, failure.kind === "no_response" ? "not answered" : "failed");
    else if (ms !== null && !uncertain) {
      this.turns.set(turn, ms);
      this.errors.set(turn, error ?? 0);
    }
    const bar = error !== null && !uncertain && ` ± ${number(error)}`;
    fill(this.large, ms === null || failure ? "–" : [number(ms), make("small", {}, " ms", bar)]);
    this.bar.style.width = `${share(failure ? 0 : (ms ?? 0))}%`;
    this.bar.toggleAttribute("data-beyond", ms > SCALE_MS);
    fill(
      this.words,
      this.soFar,
      this.detail(
        this.lag,
        ms !== null && this.rooms.get(turn) - ms > NOTICEABLE_MS
          && ` · this room waited ${number(this.rooms.get(turn))} ms, with the browser's delay`,
      ),
      (failure || ms === null || uncertain) &&
        ` · turn ${turn}: ${failure ? this.failed.get(turn) : ms === null ? reason : UNCERTAIN}`,
    );
    this.draw();
  }

  /** Show the median in place of the latest turn. */
  conclude() {
    this.clear();
    const { values } = this;
    if (!values.length) return;
    const median = quantile(values, 0.5);
    this.heading.textContent = "Voice to voice, median";
    const missing = [...this.failed].map(([turn, why]) => ` · turn ${turn}: ${why}`);
    fill(this.words, this.soFar, this.detail(this.lag), missing);
    fill(this.large, number(median), make("small", {}, " ms"));
    this.bar.style.width = `${share(median)}%`;
    this.bar.toggleAttribute("data-beyond", median > SCALE_MS);
  }

  /** Return the distribution as text. */
  get soFar() {
    const { values } = this;
    if (!values.length) return "no turn measured yet";
    const [low, median, high] = [0.25, 0.5, 0.75].map((part) => number(quantile(values, part)));
    const spread = values.length < FEWEST ? "" : ` · quartiles ${low} and ${high} ms`;
    return `median ${median} ms${spread} · ${counted(values.length, "turn")}`;
  }

  /** Return what narrow cards omit. */
  detail(...content) {
    return make("span", { class: "stage-detail" }, content);
  }

  /** The error bars so far, which are our own lateness. */
  get lag() {
    const errors = [...this.errors.values()].sort((one, other) => one - other);
    if (!errors.length) return "";
    return ` · error bar ± ${number(quantile(errors, 0.5))} ms, at most ${number(errors.at(-1))}`;
  }

  get values() {
    return [...this.turns.values()].sort((one, other) => one - other);
  }

  draw() {
    const { values } = this;
    this.median.hidden = !values.length;
    this.spread.hidden = values.length < FEWEST;
    if (!values.length) return;
    const [low, median, high] = [0.25, 0.5, 0.75].map((part) => share(quantile(values, part)));
    this.spread.style.left = `${low}%`;
    this.spread.style.width = `${high - low}%`;
    this.spread.toggleAttribute("data-beyond", quantile(values, 0.75) > SCALE_MS);
    this.median.style.left = `${median}%`;
    this.median.toggleAttribute("data-beyond", quantile(values, 0.5) > SCALE_MS);
    const dots = values.map((ms) => {
      const dot = make("i", { "data-beyond": ms > SCALE_MS });
      dot.style.left = `${share(ms)}%`;
      return dot;
    });
    fill(this.dots, dots);
  }
}
