// Derive from the levels of both voices who is audible and the state of the conversation. Pure: no audio, no page.

/** Length of a block of audio, each of which has one level. */
export const BLOCK_MS = 10;

const UNCONFIRMED_BLOCKS = 100; // the studio detects speech up to a second after the page
const SILENT_DB = -90;

/** Detects whether a voice is audible, from the level of each block, by the studio's `LevelRule`. */
class Voice {
  constructor(rule, noisy) {
    Object.assign(this, { rule, noisy, audible: false, at: 0, loud: 0, since: 0, changed: -Infinity });
    const quiet = rule.audible_dbfs - rule.above_noise_db;
    this.levels = noisy ? new Float32Array(rule.noise_windows).fill(quiet) : null;
  }

  /** Add the level of the next block in dBFS; return whether the voice has begun or ended. */
  hear(level) {
    const { rule, audible } = this;
    if (this.noisy) this.levels[this.at % rule.noise_windows] = level;
    this.at += 1;
    const noise = this.noisy ? this.levels.reduce((one, other) => Math.min(one, other)) : -Infinity;
    const loud = level > Math.max(rule.audible_dbfs, noise + rule.above_noise_db);
    this.loud = loud ? this.loud + 1 : 0;
    this.since += 1; // blocks since the last loud ones that were long enough for an onset
    if (this.loud >= rule.onset_windows) {
      this.since = 0;
      this.audible = true;
    } else if (this.since >= rule.release_windows && !loud) this.audible = false;
    if (this.audible === audible) return false;
    this.changed = this.at - (this.audible ? this.loud : this.since); // the first block of the change
    return true;
  }

  /** Whether the voice may begin or end with the next blocks. */
  get unsettled() {
    return this.audible ? this.since > 0 : this.loud > 0;
  }
}

/** The state of a conversation: "listening", "thinking" or "speaking", block by block. */
export class TurnTaking {
  /** @param {object} rule The studio's `LevelRule`. */
  constructor(rule) {
    this.user = new Voice(rule, true);
    this.reply = new Voice(rule, false);
    this.manual = false;
    this.state = "listening";
    /** The block at which the user's speech ended; null if no reply is due. */
    this.waitsFrom = null;
    this.replying = false; // a reply was audible, and its end has not been reported
    this.open = false; // the studio reports that the reply is audible or still arriving
    this.confirmed = false;
    /** Handovers, in blocks: the end of the user's speech, and the onset of the reply. */
    this.handovers = [];
  }

  /** The number of blocks so far. */
  get at() {
    return this.user.at;
  }

  /**
   * Add the levels of a block in dBFS; return whether the state has changed.
   *
   * Without a level of the reply (null), because the page does not play it, the reply begins and ends as the studio
   * reports in `open`.
   */
  hear(userLevel, replyLevel) {
    if (this.user.hear(userLevel)) this.userChanged();
    const played = replyLevel !== null;
    if (this.reply.hear(replyLevel ?? SILENT_DB) && this.reply.audible) this.replyBegan(this.reply.changed);
    else if (!played && this.open && !this.replying) this.replyBegan(this.at);
    const late = this.waitsFrom !== null && this.at - this.waitsFrom > UNCONFIRMED_BLOCKS;
    if (late && !this.confirmed) this.waitsFrom = null; // it was a noise
    return this.decide();
  }

  userChanged() {
    if (this.manual) return;
    if (this.user.audible) this.waitsFrom = null;
    else if (!this.replies) this.waitsFrom = this.user.changed;
  }

  replyBegan(at) {
    if (this.waitsFrom !== null) this.handovers.push([this.waitsFrom, at]);
    this.waitsFrom = null;
    this.confirmed = false;
    this.replying = true;
  }

  /** Whether a voice may begin or end with the next blocks. */
  get unsettled() {
    return this.user.unsettled || this.reply.unsettled;
  }

  /** Whether a reply is audible or pausing. */
  get replies() {
    this.replying &&= this.open || this.reply.audible;
    return this.replying;
  }

  decide() {
    const before = this.state;
    if (this.replies) this.state = "speaking";
    else if (this.waitsFrom !== null && this.confirmed) this.state = "thinking";
    else this.state = "listening";
    return this.state !== before;
  }

  /** Record that the studio has detected speech, so the user's sound was not a noise. */
  confirm() {
    this.confirmed = true;
  }

  /** Record that the user has ended a manual turn. */
  commit() {
    this.waitsFrom = this.user.audible ? this.at : this.user.changed;
    this.confirmed = true;
  }

  /** Record that the turn has failed, so no reply is due. */
  fail() {
    this.waitsFrom = null;
  }
}
