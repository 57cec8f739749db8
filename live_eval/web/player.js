// Play intervals of a recording's audio files.
import { announce, button, choice, fill, make, switcher } from "./elements.js";
import { seconds } from "./format.js";
import { answerAnywhere } from "./keys.js";

const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 2];
const SPEED = "live-eval-speed";
const SEEK_S = 1;
const FINE_SEEK_S = 0.1;

/** The keys of a page with recordings, for its list of keys; `SIDE_KEYS` are for conversations. */
export const SIDE_KEYS = [["B U R", "hear both sides, the user, the reply"]];
export const PLAYER_KEYS = [
  ["Space", "play, pause"],
  ["← →", "move by 1 s; with Shift, by 0.1 s"],
  ["< >", "slower, faster"],
  ["L", "loop"],
];

/** The user's choices, for all recordings of the page; the speed survives a reload. */
const chosen = { speed: storedSpeed(), loops: false, side: null };

/** The players of the page. Keys control the last one, which was opened or played most recently. */
let players = [];
let listening = null;

export class Player {
  /**
   * @param {Array<{title: string, url: string, key: string, seconds: number}>} sounds Files with a common start
   * time, one per side, with their lengths, if they differ, and with the `start` of a file on the axis, by default 0; the side that the user chose before, or else the first one, is selected. `key` is the key that selects a side.
   * @param {number} length Length of the recording in seconds.
   * @param {AbortSignal} signal Signal that stops playback.
   * @param {function(number)} moved Called with the current time.
   */
  constructor(sounds, length, signal, moved) {
    Object.assign(this, { sounds, length, moved, from: 0, until: null, ended: null });
    const first = sounds.find(({ title }) => title === chosen.side) ?? sounds[0];
    this.start_s = first.start ?? 0;
    // Omit the browser's own controls, because their buttons also react to Space.
    this.audio = make("audio", { preload: "auto", src: first.url });
    this.start = button("Play", () => this.toggle(), { class: "start-stop" });
    this.time = make("span", { class: "time" });
    this.failure = make("span", { class: "failure", role: "status" });
    const sides = sounds.map(({ title }) => [title, title]);
    this.sides = sounds.length > 1 && switcher("Side to hear", sides, first.title, (title) => this.hear(title));
    const speeds = SPEEDS.map((speed) => [String(speed), `× ${speed}`]);
    this.speed = choice("Speed", "speed", speeds, String(chosen.speed), (speed) => this.run(Number(speed)));
    this.loop = button("Loop", () => this.repeat(!chosen.loops));
    this.element = make(
      "div",
      { class: "player" },
      this.audio,
      this.start,
      this.sides,
      this.speed,
      this.loop,
      this.time,
      this.failure,
    );
    const on = (event, call) => this.audio.addEventListener(event, call);
    on("play", () => {
      this.lead();
      for (const other of document.querySelectorAll("audio")) if (other !== this.audio) other.pause();
    });
    on("pause", () => {
      if (!this.audio.ended) this.until = null;
    });
    on("ended", () => chosen.loops && this.play(this.from, this.until));
    for (const event of ["play", "pause", "ended", "seeked"]) on(event, () => this.follow());
    on("error", () => signal.aborted || fill(this.failure, "The browser cannot play this recording."));
    signal.addEventListener("abort", () => {
      this.leave();
      this.audio.pause();
      this.audio.removeAttribute("src");
      this.audio.load();
    });
    this.lead();
    this.run(chosen.speed);
    this.repeat(chosen.loops);
    this.drawTime(0);
  }

  /** Make this the player that the page's keys control. */
  lead() {
    players = [...players.filter((other) => other !== this), this];
    if (listening) return;
    listening = new AbortController();
    const lead = (act) => (event) => act(players.at(-1), event);
    const seek = (sign) => lead((player, { shiftKey }) => player.seek(player.at + sign * (shiftKey ? FINE_SEEK_S : SEEK_S)));
    const side = (key) => lead((player) => player.press(key));
    const keys = {
      " ": lead((player) => player.toggle()),
      ArrowLeft: seek(-1),
      ArrowRight: seek(1),
      "<": lead((player) => player.change(-1)),
      ">": lead((player) => player.change(1)),
      l: lead((player) => player.repeat(!chosen.loops, true)),
      b: side("b"),
      u: side("u"),
      r: side("r"),
      x: lead((player) => player.next()),
    };
    for (let digit = 1; digit <= 9; digit += 1) keys[digit] = side(String(digit));
    answerAnywhere(keys, listening.signal);
  }

  leave() {
    players = players.filter((other) => other !== this);
    if (players.length) return;
    listening?.abort();
    listening = null;
  }

  get at() {
    return this.audio.currentTime + this.start_s;
  }

  get playing() {
    return !this.audio.paused;
  }

  /** Play from one time to another, or to the end. */
  play(from = this.at >= this.length - 0.05 ? 0 : this.at, until = null) {
    Object.assign(this, { from: until === null ? 0 : from, until });
    this.seek(from);
    return this.audio.play().catch((error) => {
      // Browsers refuse playback before the first interaction with the page, and abort it if another starts.
      if (!["NotAllowedError", "AbortError"].includes(error.name)) fill(this.failure, error.message);
    });
  }

  toggle() {
    if (this.playing) this.audio.pause();
    else this.play();
  }

  /** Return where playback would be, if the selected side is shorter than that; otherwise null. */
  past() {
    if (!this.ended) return null;
    const { at, playing, since } = this.ended;
    const passed = playing ? ((performance.now() - since) / 1_000) * chosen.speed : 0;
    return { at: Math.min(this.length, at + passed), playing };
  }

  /** Move to a time without playing. */
  seek(at) {
    this.ended = null;
    this.audio.currentTime = Math.max(0, Math.min(this.length, at) - this.start_s);
    this.drawTime(this.at);
    this.moved(this.at);
  }

  /** Select the side to hear by its title. */
  hear(title) {
    const { until, from } = this;
    const { at, playing } = this.past() ?? this;
    const { url, start = 0, seconds: length = Infinity } = this.sounds.find((sound) => sound.title === title);
    chosen.side = title;
    this.audio.src = url;
    this.start_s = start;
    this.run(chosen.speed); // loading a file resets the speed
    if (playing && at < start + length) this.play(at, until);
    else this.seek(at);
    if (at >= start + length) this.ended = { at, playing, since: performance.now() };
    this.from = from;
  }

  /** Select the side to hear by its key. */
  press(key) {
    const index = this.sounds.findIndex((sound) => sound.key === key);
    if (index < 0 || !this.sides) return;
    this.sides.children[index].click();
    announce(`Hearing ${this.sounds[index].title}.`);
  }

  /** Switch to the next side at the same position. */
  next() {
    if (!this.sides) return;
    const pressed = [...this.sides.children].findIndex((one) => one.getAttribute("aria-pressed") === "true");
    this.press(this.sounds[(pressed + 1) % this.sounds.length].key);
  }

  /** Set the speed, as a factor. */
  run(speed) {
    chosen.speed = speed;
    storeSpeed(speed);
    this.audio.playbackRate = speed;
    this.audio.defaultPlaybackRate = speed;
    this.speed.querySelector("select").value = String(speed);
  }

  /** Change to the next higher (1) or lower (-1) speed. */
  change(step) {
    const place = SPEEDS.indexOf(chosen.speed) + step;
    this.run(SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, place))]);
    announce(`Speed ${chosen.speed}.`);
  }

  /** Start or stop repeating the recording or the interval in playback. */
  repeat(loops, says = false) {
    chosen.loops = loops;
    this.loop.setAttribute("aria-pressed", String(loops));
    if (says) announce(loops ? "Loop on." : "Loop off.");
  }

  follow() {
    cancelAnimationFrame(this.frame);
    this.start.textContent = this.playing ? "Pause" : "Play";
    const { at } = this;
    if (this.until !== null && at >= this.until) {
      if (chosen.loops) this.audio.currentTime = Math.max(0, this.from - this.start_s);
      else this.audio.pause();
    }
    this.drawTime(at);
    this.moved(at);
    if (this.playing) this.frame = requestAnimationFrame(() => this.follow());
  }

  drawTime(at) {
    this.time.textContent = `${seconds(at)} of ${seconds(this.length)}`;
  }
}

function storedSpeed() {
  try {
    const speed = Number(sessionStorage.getItem(SPEED));
    return SPEEDS.includes(speed) ? speed : 1;
  } catch {
    return 1; // the page is not allowed to store anything
  }
}

function storeSpeed(speed) {
  try {
    sessionStorage.setItem(SPEED, String(speed));
  } catch {
    // the choice then lasts until the page is closed
  }
}
