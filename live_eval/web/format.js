// Format numbers and times as text.

export const NONE = "–";

/** Format a number with fixed decimals and a Unicode minus sign; "–" if missing. */
export function number(value, digits = 0) {
  if (value === null || value === undefined) return NONE;
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** Format an interval as "low to high", as in reports and in the terminal; null without one. */
export function bounds(interval, digits = 0) {
  return interval && interval.map((end) => number(end, digits)).join(" to ");
}

export function milliseconds(value, digits = 0) {
  return value === null || value === undefined ? NONE : `${number(value, digits)} ms`;
}

export function seconds(value, digits = 2) {
  return value === null || value === undefined ? NONE : `${number(value, digits)} s`;
}

/** Format a count with its noun: "1 turn", "3 turns". */
export function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** Format a score with its unit, to two decimals. */
export function score(value, unit) {
  return value === null || value === undefined ? NONE : `${number(value, 2)}${unit ? ` ${unit}` : ""}`;
}

/** Format an ISO time in the browser's time zone. */
export function when(iso) {
  if (!iso) return NONE;
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return iso;
  return time.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** A failure's kind and message, without the repetition of a message that contains its kind. */
export function failureInWords({ kind, message }) {
  const name = words(kind);
  if (message.startsWith(`${kind}: `)) return `${name}: ${message.slice(kind.length + 2)}`;
  return message.includes(name) ? message : `${name}: ${message}`;
}

/** A JSON name as words. */
export function words(name) {
  return name.replaceAll("_", " ");
}
