// Draw both sides of a conversation on one time axis: waveforms, spectrograms, marks, a cursor and a selection.
import { colour, drawSpectrogram, drawWave, picture, ticks } from "./drawing.js";
import { fill, make } from "./elements.js";
import { seconds } from "./format.js";
import { answerKeys, answerPointer } from "./gestures.js";

/** The default lanes: both sides of a conversation. */
const SIDES = [
  { key: "user", title: "user" },
  { key: "endpoint", title: "endpoint" },
];
const MOST_COLUMNS = 2_000;
const SHORTEST_S = 0.05;
const SPOKEN_STEP_S = 1;
const WAIT_MS = 150;
const KEYS = "left and right arrow move, + and − zoom, 0 shows everything, Escape clears the selection";
const HELP = `Click to play from there, drag to play an interval. Keys: Space plays, ${KEYS}.`;
const SILENT_HELP = `Keys: ${KEYS}.`;
let made = 0;

/** Return the CSS class for the colour of a mark. */
export function classOf({ kind, colour: name }) {
  return name ? `c-${name}` : `m-${kind}`;
}

export class Waveform {
  /**
   * @param {object} drawing
   * @param {number} drawing.length Length of the recording in seconds.
   * @param {Array<{kind: string, title: string, at_s: number, colour: string, letter: string}>} drawing.marks `colour`
   * replaces the colour of the mark's kind, and `letter` its number; both are optional.
   * @param {Array<[number|null, string, number, number]>} [drawing.shades] Intervals to shade behind waveforms: lane (its
   *     index, null for all), kind, from, to.
   * @param {string} [drawing.described] Description of the drawing for screen readers.
   * @param {Array<{key: string, title: string, colour: string}>} [drawing.lanes] The lanes, each with the name of a colour
   *     of the page, by default its key; the two sides by default.
   * @param {boolean} [drawing.spectra] Whether to draw spectrograms.
   * @param {function(number, number, number): Promise} drawing.load Called with an interval and a number of columns;
   *     returns {start_s, step_s} and levels of 0 to 255 on a square-root scale by lane, or `start_s`, `step_s` and `levels`
   *     of a lane that has others; and `spectra` by lane.
   * @param {AbortSignal} signal
   */
  constructor({ length, marks, shades = [], described = "", lanes = SIDES, spectra = false, load }, signal) {
    Object.assign(this, { length, marks, shades, described, spectra, load, signal, sides: lanes });
    Object.assign(this, { view: [0, length], at: 0, said: 0, selection: null, shown: null, asked: 0 });
    this.player = null;
    this.build();
    const size = new ResizeObserver(() => this.draw());
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
    const canvas = (side, what) => {
      this.canvases[`${side} ${what}`] = make("canvas", { class: what, "aria-hidden": "true" });
      return this.canvases[`${side} ${what}`];
    };
    this.cursor = make("div", { class: "cursor-line" });
    this.selected = make("div", { class: "selection", hidden: true });
    this.lines = make("div", { class: "mark-lines" });
    this.backs = [...this.sides, null].map(() => make("div", { class: "shades" }));
    made += 1;
    const help = make("p", { class: "note", id: `waveform-help-${made}` });
    this.help = help;
    this.lanes = make(
      "div",
      {
        class: "lanes",
        tabindex: "0",
        role: "slider",
        "aria-label": "Position in the recording",
        "aria-valuemin": "0",
        "aria-valuenow": "0",
        "aria-valuemax": this.length.toFixed(2),
        "aria-describedby": help.id,
      },
      this.sides.map(({ key, title }, index) =>
        make(
          "div",
          { class: `lane ${key}` },
          this.backs[index],
          canvas(key, "wave"),
          this.spectra && canvas(key, "spectrum"),
          make("span", { class: "lane-name", "aria-hidden": "true" }, title),
        ),
      ),
      this.backs.at(-1),
      this.lines,
      this.selected,
      this.cursor,
    );
    this.flags = make("div", { class: "flags", "aria-hidden": "true" });
    this.ruler = make("div", { class: "ruler", "aria-hidden": "true" });
    this.failure = make("p", { class: "failure", role: "alert", hidden: true });
    this.element = make("div", { class: "waveform" }, this.flags, this.lanes, this.ruler, this.failure, help);
    this.playedBy(null);
    answerKeys(this.lanes, this);
    answerPointer(this.lanes, this);
  }

  /** Set the player for clicks and keys; null if there is no audio. */
  playedBy(player) {
    this.player = player;
    fill(
      this.help,
      player ? HELP : SILENT_HELP,
      this.described && make("span", { class: "unseen" }, ` ${this.described}`),
    );
  }

  // -- What is shown ----------------------------------------------------------------------------------------------

  /** Load the view at the resolution of the screen. */
  async refine() {
    try {
      await this.read();
      this.failure.hidden = true;
    } catch (error) {
      if (this.signal.aborted) return;
      this.failure.textContent = error.message;
      this.failure.hidden = false;
    }
  }

  async read() {
    this.asked += 1;
    const number = this.asked;
    const pixels = Math.round(this.lanes.clientWidth * (window.devicePixelRatio || 1));
    const columns = Math.min(MOST_COLUMNS, Math.max(200, pixels)) || 1_000;
    const shown = await this.load(...this.view, columns);
    if (number !== this.asked) return; // responses may arrive out of order
    if (!this.gain) {
      const most = (levels) => levels.reduce((one, other) => Math.max(one, other), 1);
      this.gain = Math.min(3, 255 / Math.max(...this.sides.map(({ key }) => most(shown[key].levels ?? shown[key]))));
    }
    this.shown = shown;
    this.pictures = {};
    this.draw();
  }

  /** Show an interval. */
  look(from, to) {
    const span = Math.max(SHORTEST_S, Math.min(this.length, to - from));
    const start = Math.max(0, Math.min(this.length - span, from));
    this.view = [start, start + span];
    this.draw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refine(), WAIT_MS);
  }

  /** Zoom in (a factor below 1) or out around the cursor, or around the middle if the cursor is outside the view. */
  zoom(factor) {
    const [from, to] = this.view;
    const centre = this.at >= from && this.at <= to ? this.at : (from + to) / 2;
    this.look(centre - (centre - from) * factor, centre + (to - centre) * factor);
  }

  whole() {
    this.look(0, this.length);
  }

  /** Mark an interval, and show it with its context. */
  select(from, to) {
    this.selection = [Math.max(0, from), Math.min(this.length, to)];
    const [left, right] = this.view;
    const span = to - from;
    if (from < left || to > right || span < (right - left) / 6) {
      const around = Math.max(0.3, span / 2);
      this.look(from - around, to + around);
    } else this.place();
  }

  /** Mark the interval of the view that is being dragged, or null for none. */
  mark(interval) {
    this.selection = interval;
    this.place();
  }

  draw() {
    const { view, shown } = this;
    const ramp = colour("--panel");
    const ink = colour("--ink");
    for (const { key: side, colour: name = side } of shown ? this.sides : []) {
      const rgb = colour(`--${name}`);
      const { levels = shown[side], step_s: step = shown.step_s, start_s: start = shown.start_s } = shown[side];
      drawWave(this.canvases[`${side} wave`], { start_s: start, step_s: step, levels }, view, this.gain, rgb);
      if (!this.spectra) continue;
      const spectrum = shown.spectra[side];
      this.pictures[side] ??= picture(spectrum, [ramp, rgb, ink]);
      drawSpectrogram(this.canvases[`${side} spectrum`], spectrum, this.pictures[side], view);
    }
    this.place();
    this.drawShades();
    this.drawRuler();
    this.drawMarks();
  }

  percent(at) {
    return (100 * (at - this.view[0])) / (this.view[1] - this.view[0]);
  }

  /** Position an element over an interval of the view. */
  spread(element, interval) {
    const [from, to] = interval.map((at) => Math.max(0, Math.min(100, this.percent(at))));
    element.style.left = `${from}%`;
    element.style.width = `${to - from}%`;
  }

  /** Place the cursor and the selection. */
  place() {
    const left = this.percent(this.at);
    this.cursor.hidden = left < 0 || left > 100;
    this.cursor.style.left = `${left}%`;
    this.selected.hidden = !this.selection;
    if (this.selection) this.spread(this.selected, this.selection);
  }

  drawShades() {
    for (const back of this.backs) fill(back);
    for (const [lane, kind, from, to] of this.shades) {
      const shade = make("div", { class: kind });
      this.spread(shade, [from, to]);
      this.backs.at(lane ?? -1).append(shade);
    }
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

  /** Draw the marks with their names, on several lines if names would overlap. */
  drawMarks() {
    const width = this.lanes.clientWidth || 1;
    const ends = [];
    const flags = [];
    const lines = [];
    this.marks.forEach((mark, index) => {
      const { title, at_s: at } = mark;
      const left = this.percent(at);
      if (left < 0 || left > 100) return;
      const name = make("span", { class: "flag-name" }, ` ${title}`);
      const flag = make("span", { class: classOf(mark) }, make("b", {}, mark.letter ?? index + 1), name);
      const line = make("div", { class: classOf(mark) });
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

  /** Move the cursor after a key or a click. */
  seek(at) {
    if (this.player) this.player.seek(at);
    else this.moveTo(Math.max(0, Math.min(this.length, at)));
  }

  /** Move the cursor, and scroll the view with it. */
  moveTo(at) {
    this.at = at;
    const [from, to] = this.view;
    if (at > to || at < from) this.look(at - (to - from) * 0.05, at + (to - from) * 0.95);
    else this.place();
    // Screen readers announce every change of a focused slider.
    if (this.player?.playing && Math.abs(at - this.said) < SPOKEN_STEP_S) return;
    this.said = at;
    this.lanes.setAttribute("aria-valuenow", at.toFixed(2));
    const before = this.marks.filter((mark) => mark.at_s <= at + 0.005).at(-1);
    this.lanes.setAttribute("aria-valuetext", `${seconds(at)}${before ? `, after ${before.title}` : ""}`);
  }
}
