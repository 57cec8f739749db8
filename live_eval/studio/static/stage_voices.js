// Derive from the levels of both voices who is audible and the state of the conversation. Pure: no audio, no page.

/** Length of a block of audio, each of which has one level. */
export const BLOCK_MS = 10;

const AUDIBLE_DB = -50; // as in the definition of voice to voice
const ONSET_BLOCKS = 3;
const ABOVE_NOISE_DB = 10;
const NOISE_BLOCKS = 300; // noise is estimated as the lowest level of the last 3 s
const USER_RELEASE_BLOCKS = 6; // longer than the closures within a word
const REPLY_RELEASE_BLOCKS = 8;
const UNCONFIRMED_BLOCKS = 100; // the studio detects speech up to a second after the page
const SILENT_DB = -90;

/** Detects whether a voice is audible, from the level of each block. */
class Voice {
  constructor(releaseBlocks, noisy) {
    Object.assign(this, { releaseBlocks, noisy, audible: false, at: 0, run: 0, changed: -Infinity });
    this.levels = noisy ? new Float32Array(NOISE_BLOCKS).fill(AUDIBLE_DB - ABOVE_NOISE_DB) : null;
  }

  /** Add the level of the next block in dBFS; return whether the voice has begun or ended. */
  hear(level) {
    if (this.noisy) this.levels[this.at % NOISE_BLOCKS] = level;
    this.at += 1;
    const noise = this.noisy ? this.levels.reduce((one, other) => Math.min(one, other)) : -Infinity;
    const loud = level > Math.max(AUDIBLE_DB, noise + ABOVE_NOISE_DB);
    this.run = loud === this.audible ? 0 : this.run + 1;
    if (this.run < (this.audible ? this.releaseBlocks : ONSET_BLOCKS)) return false;
    this.audible = !this.audible;
    this.changed = this.at - this.run; // the first block of the change
    this.run = 0;
    return true;
  }
}

/** The state of a conversation: "listening", "thinking" or "speaking", block by block. */
export class TurnTaking {
  constructor() {
    this.user = new Voice(USER_RELEASE_BLOCKS, true);
    this.reply = new Voice(REPLY_RELEASE_BLOCKS, false);
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
