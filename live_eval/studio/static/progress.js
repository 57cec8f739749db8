// Show the progress of a run, from server-sent events.
import { path } from "./api.js";
import { badge, make } from "./web/elements.js";
import { counted } from "./web/format.js";

/** Maximum number of streams, because browsers open at most six connections per server. */
const MOST_STREAMS = 3;
let open = 0;

/**
 * Follow a run until it ends or the user leaves the view.
 *
 * @param {string} run ID of the run.
 * @param {AbortSignal} signal
 * @param {{progress: function, end: function}} calls `progress` receives {state, turns, planned, failed, latest}.
 * @returns {function|null} Function that stops following; null if too many runs are already followed.
 */
export function follow(run, signal, calls) {
  if (open >= MOST_STREAMS) return null;
  open += 1;
  const stream = new EventSource(path("api", "runs", run, "progress"));
  let closed = false;
  const close = () => {
    if (closed) return;
    closed = true;
    open -= 1;
    stream.close();
  };
  stream.addEventListener("progress", (event) => calls.progress(JSON.parse(event.data)));
  stream.addEventListener("problem", (event) => calls.problem?.(JSON.parse(event.data).message));
  stream.addEventListener("end", () => {
    close();
    calls.end();
  });
  signal.addEventListener("abort", close);
  return close;
}

/** Limit an action to a tenth of the time, to leave the CPU to a run in progress. */
export function gently(work) {
  let next = 0;
  return async () => {
    const begin = performance.now();
    if (begin < next) return;
    next = Infinity;
    await work().catch(() => {});
    const end = performance.now();
    next = end + 9 * (end - begin);
  };
}

/** Return the state of a run for the list. */
export function stateOf(run) {
  return run.problem ? "unreadable" : (run.state ?? "unknown");
}

/** Make a badge with the state of a run. */
export function stateBadge(run) {
  const state = stateOf(run);
  const kind =
    { finished: "", running: "running", interrupted: "flagged", incomplete: "flagged" }[state] ?? "failed";
  return badge(state, kind);
}

/** Make a progress bar for the recorded turns of a run. */
export function progressBar(name, { turns, planned, failed }) {
  const text = planned === null ? counted(turns, "turn") : `${turns} of ${counted(planned, "turn")}`;
  return make(
    "div",
    { class: "progress" },
    make("progress", {
      max: planned ?? undefined,
      value: planned === null ? undefined : turns,
      "aria-label": `Progress of ${name}`,
    }),
    make("small", {}, failed ? `${text}, ${failed} failed` : text),
  );
}
