// Both sides of a turn over time: waveforms and spectrograms on one axis, with marks, a cursor and a selection.
import { path, read } from "./api.js";
import { fill, make } from "./dom.js";
import { seconds } from "./format.js";
import { answerKeys, answerPointer } from "./gestures.js";
import { colour, drawSpectrogram, drawWave, picture, ticks } from "./drawing.js";

const SIDES = [
  ["user", "--user"],
  ["reply", "--endpoint"],
];
const MOST_COLUMNS = 2_000;
const SHORTEST_S = 0.05;
const SPOKEN_STEP_S = 1;
const WAIT_MS = 150;
const HELP =
  "Click to play from there, drag to play an interval. Keys: left and right arrow move, Space plays, + and − zoom, 0 shows the whole, Escape clears the selection.";

export class Tracks {
  /**
   * @param {string[]} turn The parts of the turn's address.
   * @param {number} length Of the recording, in seconds.
   * @param {Array<{kind: string, title: string, at_s: number}>} marks
   * @param {AbortSignal} signal
   * @param {Player} player
   */
  constructor(turn, length, marks, signal, player) {
    Object.assign(this, { turn, length, marks, signal, player });
    this.view = [0, length];
    this.at = 0;
    this.said = 0;
    this.selection = null;
    this.shown = {};
    this.asked = 0;
    this.build();
    const redraw = () => this.draw();
    const size = new ResizeObserver(redraw);
    size.observe(this.lanes);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const recolour = () => {
      this.pictures = {};
      this.draw();
    };
    dark.addEventListener("change", recolour);
    signal.addEventListener("abort", () => {
      size.disconnect();
      dark.removeEventListener("change", recolour);
    });
  }

  build() {
    this.canvases = {};
    this.pictures = {};
    const lane = (side, what, name) => {
      this.canvases[`${side} ${what}`] = make("canvas", { "aria-hidden": "true" });
      return make(
        "div",
        { class: `track-lane ${side} lane-${what}` },
        this.canvases[`${side} ${what}`],
        make("span", { class: "lane-name", "aria-hidden": "true" }, name),
      );
    };
    this.cursor = make("div", { class: "cursor-line" });
    this.selected = make("div", { class: "selection", hidden: true });
    this.lines = make("div", { class: "mark-lines" });
    this.lanes = make(
      "div",
      {
        class: "track-lanes",
        tabindex: "0",
        role: "slider",
        "aria-label": "Position in the recording",
        "aria-valuemin": "0",
        "aria-valuenow": "0",
        "aria-valuemax": this.length.toFixed(2),
        "aria-describedby": "track-help",
      },
      SIDES.map(([side]) => [lane(side, "wave", side), lane(side, "spectrum", "")]),
      this.lines,
      this.selected,
      this.cursor,
    );
    this.flags = make("div", { class: "track-flags", "aria-hidden": "true" });
    this.ruler = make("div", { class: "track-ruler", "aria-hidden": "true" });
    this.failure = make("p", { class: "failure", role: "alert", hidden: true });
    const help = make("p", { class: "note", id: "track-help" }, HELP);
    this.element = make("div", { class: "tracks" }, this.flags, this.lanes, this.ruler, this.failure, help);
    answerKeys(this.lanes, this, this.player);
    answerPointer(this.lanes, this, this.player);
  }

  // -- What is shown ----------------------------------------------------------------------------------------------

  /** Show what the view shows, as finely as the screen can show it. */
  async refine() {
    try {
      await this.load();
      this.failure.hidden = true;
    } catch (error) {
      if (this.signal.aborted) return;
      this.failure.textContent = error.message;
      this.failure.hidden = false;
    }
  }

  async load() {
    this.asked += 1;
    const number = this.asked;
    const [from, to] = this.view;
    const interval = { start_s: from.toFixed(4), end_s: to.toFixed(4) };
    const columns =
      Math.min(
        MOST_COLUMNS,
        Math.max(200, Math.round(this.lanes.clientWidth * (window.devicePixelRatio || 1))),
      ) || 1_000;
    const [peaks, ...spectra] = await Promise.all([
      read(path(...this.turn, "waveform"), { query: { bins: columns, ...interval }, signal: this.signal }),
      ...SIDES.map(([side]) =>
        read(path(...this.turn, "spectrogram"), {
          query: { side, columns, ...interval },
          signal: this.signal,
        }),
      ),
    ]);
    if (number !== this.asked) return;
    if (!this.gain) {
      const loudest = [...peaks.user, ...peaks.reply].reduce((one, other) => Math.max(one, other), 1);
      this.gain = Math.min(3, 255 / loudest);
    }
    SIDES.forEach(([side], index) => {
      this.shown[side] = { peaks: { ...peaks, levels: peaks[side] }, spectrum: spectra[index] };
    });
    this.pictures = {};
    this.draw();
  }

  /** Show from one moment to another. */
  look(from, to) {
    const span = Math.max(SHORTEST_S, Math.min(this.length, to - from));
    const start = Math.max(0, Math.min(this.length - span, from));
    this.view = [start, start + span];
    this.draw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refine(), WAIT_MS);
  }

  /** Zoom in (a factor below 1) or out around the cursor, or around the middle if the cursor is not to be seen. */
  zoom(factor) {
    const [from, to] = this.view;
    const centre = this.at >= from && this.at <= to ? this.at : (from + to) / 2;
    this.look(centre - (centre - from) * factor, centre + (to - centre) * factor);
  }

  whole() {
    this.look(0, this.length);
  }

  /** Mark an interval, and show it with what is around it. */
  select(from, to) {
    this.selection = [Math.max(0, from), Math.min(this.length, to)];
    const [left, right] = this.view;
    const span = to - from;
    if (from < left || to > right || span < (right - left) / 6) {
      const around = Math.max(0.3, span / 2);
      this.look(from - around, to + around);
    } else this.place();
  }

  /** Mark an interval within the view, as it is being dragged; null for none. */
  mark(interval) {
    this.selection = interval;
    this.place();
  }

  draw() {
    const { view } = this;
    const ramp = colour("--panel");
    const ink = colour("--ink");
    for (const [side, name] of SIDES) {
      const shown = this.shown[side];
      if (!shown) continue;
      const rgb = colour(name);
      drawWave(this.canvases[`${side} wave`], shown.peaks, view, this.gain, rgb);
      this.pictures[side] ??= picture(shown.spectrum, [ramp, rgb, ink]);
      drawSpectrogram(this.canvases[`${side} spectrum`], shown.spectrum, this.pictures[side], view);
    }
    this.place();
    this.drawRuler();
    this.drawMarks();
  }

  percent(at) {
    return (100 * (at - this.view[0])) / (this.view[1] - this.view[0]);
  }

  /** Put the cursor and the selection where they belong. */
  place() {
    const left = this.percent(this.at);
    this.cursor.hidden = left < 0 || left > 100;
    this.cursor.style.left = `${left}%`;
    this.selected.hidden = !this.selection;
    if (!this.selection) return;
    const [from, to] = this.selection.map((at) => Math.max(0, Math.min(100, this.percent(at))));
    this.selected.style.left = `${from}%`;
    this.selected.style.width = `${to - from}%`;
  }

  drawRuler() {
    const { digits, at } = ticks(...this.view, Math.max(3, this.lanes.clientWidth / 90));
    fill(
      this.ruler,
      at.map((moment) => {
        const tick = make("span", {}, seconds(moment, digits));
        tick.style.left = `${this.percent(moment)}%`;
        tick.className = this.percent(moment) < 3 ? "first" : this.percent(moment) > 97 ? "last" : "";
        return tick;
      }),
    );
  }

  /** Marks with their names, in as many lines as keep neighbours apart. */
  drawMarks() {
    const width = this.lanes.clientWidth || 1;
    const ends = [];
    const flags = [];
    const lines = [];
    this.marks.forEach(({ kind, title, at_s: at }, index) => {
      const left = this.percent(at);
      if (left < 0 || left > 100) return;
      const number = make("b", {}, index + 1);
      const flag = make(
        "span",
        { class: `m-${kind}` },
        number,
        make("span", { class: "flag-name" }, ` ${title}`),
      );
      const line = make("div", { class: `m-${kind}` });
      line.style.left = flag.style.left = `${left}%`;
      flags.push(flag);
      lines.push(line);
    });
    fill(this.flags, flags);
    fill(this.lines, lines);
    for (const flag of flags) {
      const from = (parseFloat(flag.style.left) / 100) * width;
      const wide = flag.offsetWidth;
      const backwards = from + wide > width;
      if (backwards) flag.classList.add("backwards");
      const [start, end] = backwards ? [from - wide, from] : [from, from + wide];
      let place = ends.findIndex((taken) =>
        taken.every(([one, other]) => end + 6 < one || start > other + 6),
      );
      if (place < 0) place = ends.push([]) - 1;
      ends[place].push([start, end]);
      flag.style.top = `${place * 1.25}em`;
    }
    this.flags.style.height = `${Math.max(1, ends.length) * 1.25}em`;
  }

  // -- The cursor ---------------------------------------------------------------------------------------------

  /** Move the cursor, and the view with it. */
  moveTo(at) {
    this.at = at;
    const [from, to] = this.view;
    if (at > to || at < from) this.look(at - (to - from) * 0.05, at + (to - from) * 0.95);
    else this.place();
    // Screen readers say every change of a slider that has the focus.
    if (this.player.playing && Math.abs(at - this.said) < SPOKEN_STEP_S) return;
    this.said = at;
    this.lanes.setAttribute("aria-valuenow", at.toFixed(2));
    const before = this.marks.filter((mark) => mark.at_s <= at + 0.005).at(-1);
    this.lanes.setAttribute("aria-valuetext", `${seconds(at)}${before ? `, after ${before.title}` : ""}`);
  }
}
