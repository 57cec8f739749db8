// Draw waveforms and spectrograms on canvases, in the colours of the page.

/** The levels drawn in the background colour and in the darkest colour, in decibels below full scale. */
const QUIET_DB = -80;
const LOUD_DB = -15;

/** Decode base64. */
export function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Clear a canvas and match it to the screen resolution; return its context and its size in CSS pixels. */
export function prepare(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  const scale = window.devicePixelRatio || 1;
  const [across, down] = [width, height].map((length) => Math.max(1, Math.round(length * scale)));
  const context = canvas.getContext("2d");
  if (canvas.width === across && canvas.height === down) {
    context.setTransform(1, 0, 0, 1, 0, 0); // setting the size would clear it too, but allocate it again
    context.clearRect(0, 0, across, down);
  } else Object.assign(canvas, { width: across, height: down });
  context.scale(across / Math.max(1, width), down / Math.max(1, height));
  return { context, width, height };
}

/** Return the colour in a custom CSS property as [red, green, blue]. */
export function colour(name) {
  const context = new OffscreenCanvas(1, 1).getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

/**
 * Draw the peaks of one side.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {{start_s: number, step_s: number, levels: Iterable<number>}} peaks 0 to 255 on a square-root scale.
 * @param {[number, number]} view Start and end in seconds.
 * @param {number} gain Gain, the same for both sides.
 * @param {number[]} rgb
 */
export function drawWave(canvas, peaks, view, gain, rgb) {
  const { context, width, height } = prepare(canvas);
  fillWave(context, width, height, peaks, view, gain, `rgb(${rgb.join(" ")})`);
}

/** Draw the peaks of one side into a part of a canvas, from its origin; see `drawWave`. */
export function fillWave(context, width, height, peaks, [from, to], gain, fill) {
  const pixels = width / (to - from);
  context.fillStyle = fill;
  context.beginPath(); // one shape, because separate shapes would have visible seams
  peaks.levels.forEach((level, index) => {
    const left = (peaks.start_s + index * peaks.step_s - from) * pixels;
    const wide = peaks.step_s * pixels;
    if (left + wide < 0 || left > width) return;
    const half = Math.max(0.4, (height / 2 - 1) * Math.min(1, (level * gain) / 255) ** 1.4);
    context.rect(left, height / 2 - half, Math.max(wide, 0.6), 2 * half);
  });
  context.fill();
}

/**
 * Make the image of a spectrogram, one pixel per byte.
 *
 * @param {{columns: number, rows: number, low_db: number, data: string}} spectrum The server's response.
 * @param {number[][]} ramp Colours from quiet to loud.
 */
export function picture({ columns, rows, low_db: lowDb, data }, ramp) {
  const levels = bytes(data);
  const colours = Array.from({ length: 256 }, (_, level) =>
    between(ramp, (lowDb - (lowDb * level) / 255 - QUIET_DB) / (LOUD_DB - QUIET_DB)),
  );
  const canvas = new OffscreenCanvas(Math.max(1, columns), rows);
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, rows);
  for (let column = 0; column < columns; column += 1) {
    for (let row = 0; row < rows; row += 1) {
      const [red, green, blue] = colours[levels[column * rows + row]];
      image.data.set([red, green, blue, 255], 4 * ((rows - 1 - row) * columns + column));
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function between(ramp, share) {
  const place = Math.max(0, Math.min(1, share)) * (ramp.length - 1);
  const index = Math.min(ramp.length - 2, Math.floor(place));
  return ramp[index].map((part, channel) =>
    Math.round(part + (ramp[index + 1][channel] - part) * (place - index)),
  );
}

/**
 * Draw a spectrogram.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {{start_s: number, step_s: number, columns: number}} spectrum
 * @param {OffscreenCanvas} image The spectrogram's `picture`.
 * @param {[number, number]} view Start and end in seconds.
 */
export function drawSpectrogram(canvas, spectrum, image, [from, to]) {
  const { context, width, height } = prepare(canvas);
  const pixels = width / (to - from);
  context.drawImage(
    image,
    (spectrum.start_s - from) * pixels,
    0,
    spectrum.columns * spectrum.step_s * pixels,
    height,
  );
}

/** Return a ruler's ticks between `from` and `to`, and their number of digits. */
export function ticks(from, to, most) {
  const unit =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120].find((one) => (to - from) / one <= most) ??
    300;
  const digits = unit < 0.1 ? 2 : unit < 1 ? 1 : 0;
  const first = Math.ceil(from / unit - 1e-9);
  const count = Math.floor(to / unit + 1e-9) - first + 1;
  return { digits, at: Array.from({ length: Math.max(0, count) }, (_, index) => (first + index) * unit) };
}
