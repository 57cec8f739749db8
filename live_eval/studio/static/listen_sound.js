// Play a clip of a listening test.
import { announce } from "./web/elements.js";

const MISSED_S = 0.2;

/** A clip that records which parts were played. */
export class Sound {
  constructor({ label, title, needed = false, blob }, update) {
    Object.assign(this, { label, title, needed });
    this.address = URL.createObjectURL(blob);
    this.audio = new Audio(this.address);
    for (const event of ["play", "pause", "ended", "timeupdate", "loadedmetadata"])
      this.audio.addEventListener(event, update);
  }

  toggle() {
    if (!this.audio.paused) this.audio.pause();
    else this.audio.play().catch(() => announce(`${this.title} cannot be played`));
  }

  /** The played parts, as [start, end] in seconds. */
  get played() {
    const { played } = this.audio;
    return Array.from({ length: played.length }, (_, index) => [played.start(index), played.end(index)]);
  }

  get heard() {
    const total = this.played.reduce((sum, [begin, end]) => sum + end - begin, 0);
    return total >= this.audio.duration - MISSED_S;
  }

  draw() {
    if (!this.button) return;
    const text = `${this.audio.paused ? "Play" : "Pause"} ${this.title}`;
    if (this.button.textContent !== text) this.button.textContent = text;
    this.bar.value = this.audio.duration ? this.audio.currentTime / this.audio.duration : 0;
    this.state.textContent = this.heard ? "heard" : this.needed ? "not yet heard to the end" : "";
  }

  close() {
    this.audio.pause();
    this.audio.removeAttribute("src");
    URL.revokeObjectURL(this.address);
  }
}
