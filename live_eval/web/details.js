// Show details of a turn or a trial: failures, and values with reasons for missing ones.
import { figure, make, row, table } from "./elements.js";
import { milliseconds, score, words } from "./format.js";
import { about, headingOf } from "./scores.js";

/** Make a paragraph for a failure or a warning, with its kind. */
export function remark(kind, message, severity = "failure") {
  return make("p", { class: severity }, make("b", {}, words(kind)), ": ", message);
}

/**
 * Make a table of values.
 *
 * @param {string} caption
 * @param {string[]} heads Headings of the columns for name, value and, optionally, reason.
 * @param {Array<{name: Node|string|Array, note: string, value: Node|string, reason: string}>} rows
 */
export function values(caption, [name, value, reason], rows) {
  const cells = rows.map((each) =>
    row(
      [each.name, each.note && make("small", { class: "of" }, each.note)],
      figure(each.value),
      ...(reason ? [make("td", { class: "reason" }, each.reason ?? "")] : []),
    ),
  );
  return table(caption, [name, { label: value, figure: true }, ...(reason ? [reason] : [])], cells, { class: "cards values" });
}

/**
 * Make the table of a turn's latencies.
 *
 * @param {Array<{name: string, title: string|Array, ms: number|null, reason: string|null}>} rows
 * @param {{ms: number, flagged: boolean, title: string|Array}} lag
 * @param {function(object, string)} [play] Function that returns a button to play a value's audio, or the value's text.
 */
export function latencies(rows, lag, play = null) {
  const shown = rows.map((one) => {
    const text = milliseconds(one.ms, 1);
    return { name: one.title, value: play ? play(one, text) : text, reason: one.reason };
  });
  const reason = lag.flagged ? "above the limit" : "";
  shown.push({ name: lag.title ?? "lag (error bar)", value: milliseconds(lag.ms, 1), reason });
  const caption = `Latencies${play ? "; a value plays its audio" : ""}`;
  return values(caption, ["latency", "value", "reason"], shown);
}

/**
 * Make the table of a turn's scores.
 *
 * @param {Array<{name: string, heading: string, title: string, definition: string, unit: string,
 *     higher_is_better: boolean|null, value: number|null, reason: string|null, by: string}>} rows `by` is the judge.
 * @param {function(object, string)} [play] See `latencies`.
 */
export function scores(rows, play = null) {
  if (!rows.length) return make("p", { class: "note" }, "Not scored.");
  const shown = rows.map((one) => {
    const text = score(one.value, one.unit);
    return { name: [headingOf(one), about(one)], note: one.name, value: play ? play(one, text) : text, reason: one.reason || one.by };
  });
  const caption = `Scores${play ? "; a value plays the judged audio" : ""}`;
  return values(caption, ["score", "value", play ? "reason or judge" : "reason"], shown);
}
