// Save a turn as a video with its state, both voices, latency, text and scores, for people without the studio.
import { SCALE_MS, share } from "./talk_turn.js";
import { colour, fillWave } from "./web/drawing.js";
import { button, fill, make } from "./web/elements.js";
import { number, score } from "./web/format.js";
import { save } from "./web/sound.js";

const [WIDTH, HEIGHT, MARGIN] = [1280, 720, 56];
const INNER = WIDTH - 2 * MARGIN;
const FRAMES_PER_S = 30;
const AFTER_S = 1.5; // duration of the last picture
const FORMATS = [
  ["mp4", "video/mp4;codecs=avc1.42E01F,mp4a.40.2"],
  ["webm", "video/webm;codecs=vp9,opus"],
  ["webm", "video/webm;codecs=vp8,opus"],
];
const MOST_SCORES = 4;
const SAVED_MS = 60_000; // time for the browser to read the file
const STATES = { listening: "user", thinking: "soft", speaking: "endpoint" };
const SILENT = 1; // of 255, about -48 dBFS
const COLOURS = ["panel", "ink", "soft", "tint", "user", "endpoint"];

/** Return the state of a turn at a time: `end` of speech, first `audible` sample of the reply, and its end `over`. */
export function stateAt(at, end, audible, over = Infinity) {
  if (audible !== undefined && at >= audible) return at < over ? "speaking" : "listening";
  return end !== undefined && at >= end ? "thinking" : "listening";
}

/** Split a text into at most `most` lines; if the text is longer, the last line ends in "…". */
export function wrapped(text, most, fits) {
  const lines = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && fits(longer)) lines[lines.length - 1] = longer;
    else if (lines.length < most) lines.push(word);
    else {
      const room = lines.at(-1).split(" ");
      while (room.length > 1 && !fits(`${room.join(" ")} …`)) room.pop();
      lines[most - 1] = `${room.join(" ")} …`;
      break;
    }
  }
  return lines;
}

/** Draws pictures of a turn. */
class Pictures {
  /**
   * @param {object} turn Turn as returned by the server.
   * @param {{step_s: number, user: number[], reply: number[]}} peaks
   * @param {number} length Length in seconds.
   */
  constructor(turn, peaks, length) {
    Object.assign(this, { turn, peaks, length });
    const at = (kind) => turn.marks.find((mark) => mark.kind === kind)?.at_s;
    [this.end, this.audible] = [at("end"), at("audible")];
    this.over = peaks.step_s * (1 + peaks.reply.findLastIndex((level) => level > SILENT));
    this.latency = turn.latencies.find(({ name }) => name === "voice_to_voice")?.ms ?? null;
    this.scores = turn.scores.filter(({ value }) => value !== null).slice(0, MOST_SCORES);
    this.loudest = Math.max(32, ...peaks.user, ...peaks.reply);
    this.font = getComputedStyle(document.body).fontFamily;
    this.colours = Object.fromEntries(COLOURS.map((name) => [name, colour(`--${name}`)]));
    this.canvas = document.createElement("canvas");
    [this.canvas.width, this.canvas.height] = [WIDTH, HEIGHT];
    this.context = this.canvas.getContext("2d");
  }

  draw(at) {
    const { context } = this;
    context.fillStyle = this.css("panel");
    context.fillRect(0, 0, WIDTH, HEIGHT);
    const state = stateAt(at, this.end, this.audible, this.over);
    this.write(state[0].toUpperCase() + state.slice(1), MARGIN, 92, 60, this.css(STATES[state]), "bold");
    const { turn_id: id, cue } = this.turn;
    this.write([id, cue?.phrase ?? cue?.attribute].filter(Boolean).join(" · "), WIDTH - MARGIN, 92, 26, this.css("soft"), "normal", "right");
    this.drawVoices(at, 130, 210);
    this.drawLatency(at, 372);
    this.drawText(at, 500);
  }

  css(name, alpha = 1) {
    return `rgb(${this.colours[name].join(" ")} / ${alpha})`;
  }

  write(text, x, y, size, fill, weight = "normal", align = "left") {
    Object.assign(this.context, { font: `${weight} ${size}px ${this.font}`, fillStyle: fill, textAlign: align });
    this.context.fillText(text, x, y);
  }

  drawVoices(at, top, height) {
    const { context, peaks, length, end, audible } = this;
    const x = (moment) => MARGIN + (INNER * moment) / length;
    if (end !== undefined && at > end) {
      context.fillStyle = this.css("soft", 0.22);
      context.fillRect(x(end), top, x(Math.min(at, audible ?? at)) - x(end), height);
    }
    const half = height / 2;
    for (const [side, name, y] of [
      ["user", "user", top],
      ["reply", "endpoint", top + half],
    ]) {
      const voice = { start_s: 0, step_s: peaks.step_s, levels: peaks[side] };
      for (const [from, to, alpha] of [
        [0, at, 1],
        [at, length, 0.25],
      ]) {
        if (to <= from) continue;
        context.save();
        context.beginPath();
        context.rect(x(from), y, x(to) - x(from), half);
        context.clip();
        context.translate(MARGIN, y);
        fillWave(context, INNER, half, voice, [0, length], 255 / this.loudest, this.css(name, alpha));
        context.restore();
      }
    }
    context.fillStyle = this.css("ink");
    context.fillRect(x(Math.min(at, length)) - 1, top, 2, height);
  }

  drawLatency(at, top) {
    const { context, end, audible, latency } = this;
    const waits = end !== undefined && at >= end;
    const known = waits && audible !== undefined && at >= audible;
    const ms = known ? latency : waits ? 1000 * (at - end) : null;
    this.write(this.turn.uncertain ? "Voice to voice, uncertain" : "Voice to voice", MARGIN, top + 24, 24, this.css("soft"));
    this.write(ms === null ? "–" : `${number(ms)} ms`, MARGIN, top + 84, 56, this.css(known ? "ink" : "soft"), "bold");
    const [left, wide] = [MARGIN + 330, INNER - 330];
    context.fillStyle = this.css("tint");
    context.fillRect(left, top + 30, wide, 30);
    context.fillStyle = this.css(known ? "endpoint" : "soft");
    context.fillRect(left, top + 30, (wide * share(ms ?? 0)) / 100, 30);
    for (let second = 0; second <= SCALE_MS / 1000; second += 1)
      this.write(`${second} s`, left + (wide * 1000 * second) / SCALE_MS, top + 90, 20, this.css("soft"), "normal", ["left", "center", "center", "right"][second]);
  }

  drawText(at, top) {
    const { context, turn } = this;
    const said = [[turn.text ?? turn.heard_text, "user"]];
    if (stateAt(at, this.end, this.audible) === "speaking") said.push([turn.reply_text, "endpoint"]);
    let y = top + 20;
    for (const [text, name] of said) {
      if (!text) continue;
      context.font = `normal 28px ${this.font}`;
      for (const line of wrapped(text, 2, (each) => context.measureText(each).width <= INNER)) {
        this.write(line, MARGIN, y, 28, this.css(name));
        y += 38;
      }
      y += 8;
    }
    if (at < this.length) return;
    const scores = this.scores.map(({ heading, value, unit }) => `${heading} ${score(value, unit)}`);
    this.write(scores.join("   ·   "), MARGIN, HEIGHT - 28, 24, this.css("ink"));
  }
}

/**
 * Record a turn while playing it, which takes as long as the turn.
 *
 * @param {{turn: object, peaks: object, length: number, url: string}} sound `url` is the audio of both sides in stereo.
 * @param {AbortSignal} signal
 * @param {function(number)} progress Called with the current time.
 * @returns {Promise<{blob: Blob, extension: string}>}
 */
async function record({ turn, peaks, length, url }, signal, progress) {
  const [extension, mimeType] = FORMATS.find(([, type]) => globalThis.MediaRecorder?.isTypeSupported(type)) ?? [];
  if (!mimeType) throw new Error("this browser cannot record video");
  const context = new AudioContext({ sampleRate: 48_000 });
  let timer;
  try {
    const response = await fetch(url, { signal });
    const source = context.createBufferSource();
    source.buffer = await context.decodeAudioData(await response.arrayBuffer());
    signal.throwIfAborted();
    const mixed = context.createMediaStreamDestination();
    mixed.channelCount = 1;
    const sides = context.createChannelSplitter(2);
    source.connect(sides);
    const sum = context.createGain();
    for (const side of [0, 1]) sides.connect(sum, side);
    sum.connect(mixed);
    const pictures = new Pictures(turn, peaks, length);
    const tracks = [...pictures.canvas.captureStream(FRAMES_PER_S).getTracks(), ...mixed.stream.getTracks()];
    const recorder = new MediaRecorder(new MediaStream(tracks), { mimeType, videoBitsPerSecond: 2_500_000 });
    const parts = [];
    recorder.addEventListener("dataavailable", ({ data }) => parts.push(data));
    const stopped = new Promise((done) => recorder.addEventListener("stop", done));
    pictures.draw(0);
    recorder.start();
    await context.resume();
    signal.throwIfAborted();
    const begin = context.currentTime + 0.1;
    source.start(begin);
    await new Promise((done, failed) => {
      signal.addEventListener("abort", () => failed(signal.reason));
      recorder.addEventListener("error", ({ error }) => failed(error));
      // Use a timer, because animation frames stop while the page is hidden; a timer still fires once per second.
      timer = setInterval(() => {
        const at = Math.max(0, context.currentTime - begin);
        pictures.draw(Math.min(at, length));
        progress(Math.min(at, length));
        if (at >= length + AFTER_S) done();
      }, 1000 / FRAMES_PER_S);
    });
    recorder.stop();
    await stopped;
    return { blob: new Blob(parts, { type: mimeType }), extension };
  } finally {
    clearInterval(timer);
    context.close();
  }
}

/**
 * Make a button that saves a turn as a video, and a status text. Pressed again, the button stops without saving.
 *
 * @param {function(): Promise<{turn: object, peaks: object, length: number, url: string}>} load
 * @param {AbortSignal} signal Signal that stops recording.
 */
export function videoButton(load, signal) {
  const label = "Save video";
  let recording = null;
  const press = async () => {
    if (recording) {
      recording.abort(new DOMException("stopped", "AbortError"));
      return;
    }
    recording = new AbortController();
    fill(said, "Recording takes as long as the turn.");
    try {
      const either = AbortSignal.any([signal, recording.signal]);
      const sound = await load();
      either.throwIfAborted();
      const { blob, extension } = await record(sound, either, (at) => {
        made.textContent = `Stop video: ${number(at)} of ${number(sound.length)} s`;
      });
      const address = URL.createObjectURL(blob);
      save(address, `${sound.turn.turn_id.replace(/[^\w.-]+/g, "-")}.${extension}`);
      setTimeout(() => URL.revokeObjectURL(address), SAVED_MS);
      fill(said, "Saved.");
    } catch (error) {
      fill(said, error.name === "AbortError" ? "" : `No video: ${error.message}`);
    } finally {
      recording = null;
      made.textContent = label;
    }
  };
  const title = "Record the turn while playing it, with state, voices, latency, text and scores; takes as long as the turn";
  const made = button(label, press, { title });
  const said = make("span", { class: "note", role: "status" });
  return [made, said];
}
