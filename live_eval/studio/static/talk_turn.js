// Show the latencies of a turn of a conversation.
import { figure, make, row } from "./web/elements.js";
import { milliseconds, number, words } from "./web/format.js";

/** The end of the latency scale, which is the same for all turns so that bars can be compared. */
export const SCALE_MS = 3_000;

/** Why a latency has no error bar. */
export const UNCERTAIN = "the end of the speech is uncertain";

/** Return the position of a latency on the scale in percent. */
export const share = (ms) => 100 * Math.max(0, Math.min(1, ms / SCALE_MS));

/** Show the latencies of a turn step by step, from the end of the user's speech; `whose` labels one of several endpoints. */
export function turnFigures({
  number: count,
  turn: id,
  failure,
  voice_to_voice_ms: total,
  why_not: reason,
  error_ms: error,
  uncertain,
  steps,
  barge_in_stop_ms: stop,
  after_ms: after,
}, whose) {
  const title = `Turn ${count}${whose ? ` · ${whose}` : ""}`;
  const shown = steps.filter(({ ms }) => ms !== 0);
  let begin = 0;
  const rows = shown.map(({ name, ms }) => {
    const bar = make("div", { class: "talk-bar" });
    bar.style.marginLeft = `${share(begin)}%`;
    begin += Math.max(0, ms);
    bar.style.width = `calc(${share(begin)}% - ${bar.style.marginLeft})`;
    return row(name, make("td", { class: "talk-bars" }, bar), figure(milliseconds(ms)));
  });
  const summary = failure
    ? make("p", { class: "failure" }, `${words(failure.kind)}: ${failure.message}`)
    : make(
        "p",
        {},
        total === null
          ? `Voice to voice: ${reason}.`
          : uncertain
            ? `Voice to voice ${number(total)} ms: ${UNCERTAIN}.`
            : `Voice to voice ${number(total)} ± ${number(error)} ms.`,
      );
  return make(
    "section",
    { class: "talk-turn", "aria-label": title, "data-number": count, "data-after-ms": after },
    make("h2", { "data-turn": id }, title),
    summary,
    stop !== null && make("p", {}, `The reply stopped ${milliseconds(stop)} after you spoke over it.`),
    rows.length > 0 &&
      make(
        "table",
        {},
        make("caption", { class: "unseen" }, `Latency of turn ${count} by step; bars from 0 to ${SCALE_MS / 1000} s`),
        make("tbody", {}, rows),
      ),
  );
}
