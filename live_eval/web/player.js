// Plays intervals of a recording's audio files.
import { fill, make, switcher } from "./elements.js";
import { seconds } from "./format.js";

export class Player {
  /**
   * @param {Array<{title: string, url: string}>} sounds Files of equal length, one per side; the first is selected.
   * @param {number} length Length of the recording in seconds.
   * @param {AbortSignal} signal Stops playback.
   * @param {function(number)} moved Called with the current time.
   */
  constructor(sounds, length, signal, moved) {
    Object.assign(this, { length, moved, until: null });
    this.audio = make("audio", { controls: true, preload: "auto", src: sounds[0].url });
    this.time = make("span", { class: "time" });
    this.failure = make("span", { class: "failure", role: "status" });
    const sides = sounds.map(({ title, url }) => [url, title]);
    this.element = make(
      "div",
      { class: "player" },
      this.audio,
      sounds.length > 1 && switcher("Side to hear", sides, sounds[0].url, (url) => this.hear(url)),
      this.time,
      this.failure,
    );
    const on = (event, call) => this.audio.addEventListener(event, call);
    on("play", () => {
      for (const other of document.querySelectorAll("audio")) if (other !== this.audio) other.pause();
    });
    on("pause", () => {
      this.until = null;
    });
    for (const event of ["play", "pause", "ended", "seeked"]) on(event, () => this.follow());
    on("error", () => signal.aborted || fill(this.failure, "The browser cannot play this recording."));
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

  /** Play from one time to another, or to the end. */
  play(from = this.at >= this.length - 0.05 ? 0 : this.at, until = null) {
    this.until = until;
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

  /** Move to a time without playing. */
  seek(at) {
    this.audio.currentTime = Math.max(0, Math.min(this.length, at));
    this.drawTime(this.audio.currentTime);
    this.moved(this.audio.currentTime);
  }

  hear(url) {
    const { at, playing, until } = this;
    this.audio.src = url;
    if (playing) this.play(at, until);
    else this.seek(at);
  }

  follow() {
    cancelAnimationFrame(this.frame);
    const { at } = this;
    if (this.until !== null && at >= this.until) this.audio.pause();
    this.drawTime(at);
    this.moved(at);
    if (this.playing) this.frame = requestAnimationFrame(() => this.follow());
  }

  drawTime(at) {
    this.time.textContent = `${seconds(at)} of ${seconds(this.length)}`;
  }
}
