// Which sound lies behind a figure: pure.

const STARTS = {
  endpointing: "end",
  first_byte: "end",
  voice_to_voice: "end",
  transcript: "end",
  lead_silence: "byte",
  barge_in_stop: "barge",
};

/**
 * The interval that a latency measures.
 *
 * @param {{marks: Array<{kind: string, at_s: number}>}} turn
 * @param {string} name
 * @param {number|null} ms
 * @returns {[number, number]|null} From and to in seconds; null where there is no sound behind it (connecting).
 */
export function behindLatency(turn, name, ms) {
  const start = turn.marks.find((mark) => mark.kind === STARTS[name]);
  if (!start || ms === null) return null;
  const interval = [start.at_s, start.at_s + ms / 1_000]; // latencies may be negative
  return interval.sort((one, other) => one - other);
}

/** The interval in which the reply that answers the turn is heard; null if it is not heard. */
export function behindReply(turn) {
  const answer = turn.responses.find((response) => response.answers);
  const line = turn.transcript.find((each) => each.side === "reply" && each.response_id === answer?.response_id);
  if (!line?.sounds.length) return null;
  return [line.sounds[0][0], line.sounds.at(-1)[1]];
}
