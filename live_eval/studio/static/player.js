// Plays either side of a turn, or both, from one moment to another.
import { path } from "./api.js";
import { button, fill, make, switcher } from "./dom.js";
import { seconds } from "./format.js";

const SIDES = [
  ["both", "both sides"],
  ["user", "user"],
  ["reply", "reply"],
];

export class Player {
  /**
   * @param {string[]} turn The parts of the turn's address.
   * @param {number} length Of the recording, in seconds.
   * @param {AbortSignal} signal Playing ends with it.
   * @param {function(number)} moved Called with the moment that is heard.
   */
  constructor(turn, length, signal, moved) {
    this.turn = turn;
    this.length = length;
    this.moved = moved;
    this.until = null;
    this.audio = new Audio();
    this.audio.preload = "auto";
    this.audio.src = path(...turn, "audio", "both");
    this.toggleButton = button("Play", () => this.toggle(), { class: "play" });
    this.time = make("span", { class: "time" });
    this.failure = make("span", { class: "failure", role: "status" });
    this.element = make(
      "div",
      { class: "player" },
      this.toggleButton,
      switcher("Side to hear", SIDES, "both", (side) => this.hear(side)),
      this.time,
      this.failure,
    );
    for (const event of ["play", "pause", "ended"])
      this.audio.addEventListener(event, () => this.drawState());
    this.audio.addEventListener("error", () => fill(this.failure, "The browser cannot play this recording."));
    signal.addEventListener("abort", () => {
      this.audio.pause();
      this.audio.removeAttribute("src");
      this.audio.load();
    });
    this.drawTime(0);
  }

  get at() {
    return this.audio.currentTime;
  }

  get playing() {
    return !this.audio.paused;
  }

  /** Play from a moment until another one, or to the end. */
  play(from = this.at >= this.length - 0.05 ? 0 : this.at, until = null) {
    this.until = until;
    this.seek(from);
    return this.audio.play().catch((error) => {
      // A page may not play before somebody has used it, nor after it was told to play something else.
      if (!["NotAllowedError", "AbortError"].includes(error.name)) fill(this.failure, error.message);
    });
  }

  pause() {
    this.audio.pause();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  /** Go to a moment without playing. */
  seek(at) {
    this.audio.currentTime = Math.max(0, Math.min(this.length, at));
    this.drawTime(this.audio.currentTime);
    this.moved(this.audio.currentTime);
  }

  hear(side) {
    const { at, playing, until } = this;
    this.audio.src = path(...this.turn, "audio", side);
    if (playing) this.play(at, until);
    else this.seek(at);
  }

  drawState() {
    this.toggleButton.textContent = this.playing ? "Pause" : "Play";
    cancelAnimationFrame(this.frame);
    this.followFrame();
  }

  followFrame() {
    const { at } = this;
    if (this.until !== null && at >= this.until) this.pause();
    this.drawTime(at);
    this.moved(at);
    if (this.playing) this.frame = requestAnimationFrame(() => this.followFrame());
  }

  drawTime(at) {
    this.time.textContent = `${seconds(at)} of ${seconds(this.length)}`;
  }
}
