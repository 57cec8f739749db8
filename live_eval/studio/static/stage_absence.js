// Report what the audience missed while the page was not visible, for example in a background tab.
import { counted, number } from "./web/format.js";
import { BLOCK_MS } from "./stage_voices.js";

const LEAST_MS = 1000;

export class Absence {
  /**
   * @param {function(): number} heard Returns the number of blocks of audio so far.
   * @param {function(string)} tell Shows a note.
   */
  constructor(heard, tell) {
    Object.assign(this, { heard, tell, since: null, turns: new Set() });
    this.changed = () => (document.hidden ? this.begin() : this.end());
    document.addEventListener("visibilitychange", this.changed);
    if (document.hidden) this.begin();
  }

  begin() {
    this.since ??= { ms: performance.now(), blocks: this.heard() };
  }

  /** A turn was measured. */
  missed({ number: turn }) {
    if (this.since) this.turns.add(turn);
  }

  end() {
    if (!this.since) return;
    const ms = performance.now() - this.since.ms;
    const silent = ms - (this.heard() - this.since.blocks) * BLOCK_MS;
    const turns = this.turns.size;
    this.since = null;
    this.turns.clear();
    if (ms < LEAST_MS) return;
    const gap = silent < LEAST_MS ? "" : ` Neither voice was drawn for ${number(silent / 1000)} s.`;
    const measured = turns ? counted(turns, "turn") : "no turn";
    this.tell(`The stage was hidden for ${number(ms / 1000)} s. The conversation continued: ${measured} measured.${gap}`);
  }

  close() {
    document.removeEventListener("visibilitychange", this.changed);
  }
}
