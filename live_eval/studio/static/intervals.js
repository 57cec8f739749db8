// Find the audio interval that a value describes. Pure.

const STARTS = {
  endpointing: "end",
  first_byte: "end",
  voice_to_voice: "end",
  voice_to_voice_from_last_sound: "end",
  transcript: "end",
  lead_silence: "byte",
  barge_in_stop: "barge",
};

/**
 * Return the audio interval of a latency.
 *
 * @param {{marks: Array<{kind: string, at_s: number}>}} turn
 * @param {string} name
 * @param {number|null} ms
 * @returns {[number, number]|null} Start and end in seconds; null if there is no audio (connect).
 */
export function behindLatency(turn, name, ms) {
  const at = (kind) => turn.marks.find((mark) => mark.kind === kind)?.at_s;
  // the end of the last word has no mark
  const start = name === "voice_to_voice_from_last_word" ? at("audible") - ms / 1_000 : at(STARTS[name]);
  if (!Number.isFinite(start) || ms === null) return null;
  const interval = [start, start + ms / 1_000]; // latencies may be negative
  return interval.sort((one, other) => one - other);
}

/**
 * Return the audio interval that a score is about: the reply that answers the turn, or the user's speech.
 *
 * @param {{responses: object[], transcript: object[]}} turn
 * @param {"reply"|"user"} side
 * @returns {[number, number]|null} Start and end in seconds; null if nothing is audible.
 */
export function behindScore(turn, side) {
  const answer = turn.responses.find((response) => response.answers)?.response_id;
  const sounds = turn.transcript
    .filter((line) => line.side === side && (side === "user" || line.response_id === answer))
    .flatMap((line) => line.sounds);
  if (!sounds.length) return null;
  return [Math.min(...sounds.map(([from]) => from)), Math.max(...sounds.map(([, to]) => to))];
}
