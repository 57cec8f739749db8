// The progress of a run, from server-sent events.
import { path } from "./api.js";
import { badge, make } from "./web/elements.js";
import { counted } from "./web/format.js";

/** Browsers open at most six connections per server, and each stream occupies one. */
const MOST_STREAMS = 3;
let open = 0;

/**
 * Follow a run until it ends or the user leaves the view.
 *
 * @param {string} run Its id.
 * @param {AbortSignal} signal
 * @param {{progress: function, end: function}} calls `progress` gets {state, turns, planned, failed, latest}.
 * @returns {function|null} Function to stop following; null if too many runs are already followed.
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

/** Return a function that limits an action to a tenth of the time, because a run in progress needs the machine. */
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

/** The state of a run for the list. */
export function stateOf(run) {
  return run.problem ? "unreadable" : (run.state ?? "unknown");
}

/** A badge with the state of a run. */
export function stateBadge(run) {
  const state = stateOf(run);
  const kind =
    { finished: "", running: "running", interrupted: "flagged", incomplete: "flagged" }[state] ?? "failed";
  return badge(state, kind);
}

/** A progress bar for the recorded turns of a run. */
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
