// Draw both voices on one scrolling axis (user above, reply below): waveforms, spectrograms and handovers.
import { colour, prepare } from "./web/drawing.js";
import { make } from "./web/elements.js";
import { BLOCK_MS } from "./stage_voices.js";

const SHOWN_BLOCKS = 1_200;
const BLOCKS_PER_COLUMN = 2;
const COLUMNS = SHOWN_BLOCKS / BLOCKS_PER_COLUMN;
const WAVE_SHARE = 0.5; // of the half for each voice
const FRAME_MS = 40;
const MOST_BUSY = 4; // minimum time between frames in drawing times, because the state has priority
const SECOND_BLOCKS = 1000 / BLOCK_MS;

export class ScrollingWave {
  constructor() {
    this.canvas = make("canvas", {
      class: "stage-wave",
      role: "img",
      "aria-label": "Waveforms and spectrograms of the last 12 seconds: you above, the reply below",
    });
    this.blocks = 0;
    this.peaks = [new Float32Array(COLUMNS), new Float32Array(COLUMNS)];
    this.high = [0, 0]; // peaks of the current column
    this.pictures = [null, null];
    this.due = 0;
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.recolour = () => {
      this.colours = ["--user", "--endpoint"].map(colour);
      [this.ink, this.back] = ["--soft", "--panel"].map(colour);
    };
    this.dark.addEventListener("change", this.recolour);
    this.recolour();
  }

  /** Add the peaks of a block, 0 to 1, and the spectra with which a column ends; null within a column. */
  add(peaks, spectra) {
    this.high = peaks.map((peak, voice) => Math.max(peak, this.high[voice]));
    this.blocks += 1;
    if (this.blocks % BLOCKS_PER_COLUMN) return;
    const at = (this.columns - 1) % COLUMNS;
    this.high.forEach((peak, voice) => {
      this.peaks[voice][at] = peak;
      this.addSpectrum(voice, at, spectra[voice]);
    });
    this.high = [0, 0];
  }

  /** The number of complete columns so far. */
  get columns() {
    return Math.floor(this.blocks / BLOCKS_PER_COLUMN);
  }

  addSpectrum(voice, at, levels) {
    this.pictures[voice] ??= new OffscreenCanvas(COLUMNS, levels.length);
    const context = this.pictures[voice].getContext("2d");
    const image = context.createImageData(1, levels.length);
    const [red, green, blue] = this.colours[voice];
    levels.forEach((level, bin) => {
      const row = voice === 0 ? levels.length - 1 - bin : bin; // low frequencies next to the axis
      image.data.set([red, green, blue, level], 4 * row);
    });
    context.putImageData(image, at, 0);
  }

  /** Whether to draw at this time, at most 25 times per second. */
  isDue(now) {
    return now >= this.due;
  }

  draw(handovers) {
    const now = performance.now();
    this.drawNow(handovers);
    this.due = now + Math.max(FRAME_MS, MOST_BUSY * (performance.now() - now));
  }

  drawNow(handovers) {
    const { context, width, height } = prepare(this.canvas);
    const perBlock = width / SHOWN_BLOCKS;
    const first = this.blocks - SHOWN_BLOCKS;
    const middle = height / 2;
    const wave = middle * WAVE_SHARE;
    this.drawHandovers(context, handovers, (block) => (block - first) * perBlock, height);
    context.save();
    context.translate(-(this.blocks % BLOCKS_PER_COLUMN) * perBlock, 0); // as the waveform within a column
    this.drawSpectra(context, width, wave, middle);
    context.restore();
    this.peaks.forEach((peaks, voice) => {
      context.fillStyle = `rgb(${this.colours[voice].join(" ")})`;
      context.beginPath();
      for (let column = Math.max(0, this.columns - COLUMNS); column < this.columns; column += 1) {
        const peak = peaks[column % COLUMNS];
        if (!peak) continue;
        const high = Math.max(0.6, wave * Math.min(1, Math.sqrt(peak)));
        const left = (column * BLOCKS_PER_COLUMN - first) * perBlock;
        context.rect(left, voice ? middle : middle - high, BLOCKS_PER_COLUMN * perBlock + 0.3, high);
      }
      context.fill();
    });
    context.fillStyle = `rgb(${this.ink.join(" ")})`;
    context.fillRect(0, middle - 1, width, 2);
    const from = Math.ceil(first / SECOND_BLOCKS) * SECOND_BLOCKS;
    for (let block = from; block < this.blocks; block += SECOND_BLOCKS)
      context.fillRect((block - first) * perBlock, middle - 5, 1, 10);
  }

  /** Shade the silence between the end of the user's speech and the reply. */
  drawHandovers(context, handovers, x, height) {
    for (const [end, begin] of handovers) {
      context.fillStyle = `rgb(${this.ink.join(" ")} / .22)`;
      context.fillRect(x(end), 0, x(begin) - x(end), height);
      context.fillStyle = `rgb(${this.ink.join(" ")})`;
      for (const block of [end, begin]) context.fillRect(x(block) - 1, 0, 2, height);
    }
  }

  drawSpectra(context, width, wave, middle) {
    const next = this.columns % COLUMNS; // the oldest column, once all columns are used
    const perColumn = width / COLUMNS;
    this.pictures.forEach((picture, voice) => {
      if (!picture) return;
      const [top, high] = [voice ? middle + wave : 0, middle - wave];
      const older = COLUMNS - next;
      context.drawImage(picture, next, 0, older, picture.height, 0, top, older * perColumn, high);
      if (next)
        context.drawImage(picture, 0, 0, next, picture.height, older * perColumn, top, next * perColumn, high);
    });
  }

  close() {
    this.dark.removeEventListener("change", this.recolour);
  }
}
