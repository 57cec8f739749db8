// Show the results of a listening test, and export files for other commands.
import { path, read, withQuery } from "./api.js";
import { figure, fill, make, row, table } from "./web/elements.js";
import { NONE, bounds, counted, number } from "./web/format.js";
import { KINDS } from "./listen.js";

export async function show(place, { test, signal }) {
  const results = await read(path("api", "listen", test, "results"), { signal });
  const shown = { ab: preferences, abx: identities, rating: ratings, mushra }[results.kind];
  fill(
    place,
    make("h1", {}, "Results"),
    make(
      "p",
      {},
      `${KINDS[results.kind]}. ${counted(results.cases, "case")} of ${results.runs.join(" and ")}, ${counted(results.votes, "vote")}.`,
    ),
    (results.problems ?? []).map((text) => make("p", { class: "failure", role: "alert" }, text)),
    table(
      "Listeners",
      ["listener", { label: "votes", figure: true }],
      results.listeners.map(({ name, votes, trials }) => row(name, figure(`${votes} of ${trials}`))),
    ),
    shown(results),
    exports(test, results),
    make(
      "p",
      { class: "actions" },
      make("a", { href: `#${path("listen", test)}` }, "Vote"),
      make("a", { href: "#/listen" }, "All tests"),
    ),
  );
  return "Results";
}

/** Show a value with its interval, or the reason why it is missing. */
function estimate(found, digits = 2) {
  if (!found || found.value === null)
    return figure(NONE, make("small", { class: "of" }, found?.reason ?? ""));
  return figure(number(found.value, digits), make("small", { class: "of" }, bounds(found.interval, digits) ?? found.reason));
}

const heads = (first, ...figures) => [first, ...figures.map((label) => ({ label, figure: true }))];

function preferences({ ratings: found, position, between_listeners: between, judges }) {
  return [
    table(
      "Runs",
      heads("run", "wins", "ties", "losses", "win rate", "rating"),
      found.runs.map((run) =>
        row(
          run.name,
          figure(run.wins),
          figure(run.ties),
          figure(run.losses),
          estimate(run.win_rate, 3),
          estimate(run.rating, 0),
        ),
      ),
    ),
    table("Agreement", heads("metric", "value", "n"), [
      row("between listeners: Krippendorff's alpha", estimate(between), figure(between.n)),
      row("preference for A, −1 to 1", estimate(position), figure(position.n)),
    ]),
    judges.length
      ? table(
          "Judges: share of turns on which they prefer the same reply as the listeners",
          heads("judge", "share", "n"),
          judges.map(({ judge, agreement }) => row(judge, estimate(agreement), figure(agreement.n))),
        )
      : make(
          "p",
          { class: "note" },
          "No judge has scored both runs and no arena has compared them, so the votes cannot be compared.",
        ),
  ];
}

function identities({ correct, by_listener: by }) {
  const rows = Object.entries(by).map(([name, share]) => row(name, estimate(share), figure(share.n)));
  return table("How often X was identified correctly; the chance level is one half", heads("listener", "share", "n"), [
    row("all", estimate(correct), figure(correct.n)),
    ...rows,
  ]);
}

function ratings({ means, agreement }) {
  return [
    table(
      "Mean ratings",
      heads("scale", "mean", "n"),
      means.map(({ score, run, mean }) => row(`${score}, ${run}`, estimate(mean), figure(mean.n))),
    ),
    table(
      "Agreement",
      heads(
        "scale",
        "between listeners: alpha",
        "ordinal alpha",
        "with the judge: alpha",
        "Spearman's ρ",
        "n",
      ),
      Object.entries(agreement).map(([score, found]) =>
        row(
          score,
          estimate(found.between_raters.alpha_interval),
          estimate(found.between_raters.alpha_ordinal),
          estimate(found.alpha_interval),
          estimate(found.spearman),
          figure(found.n),
        ),
      ),
    ),
  ];
}

const SYSTEMS = {
  "(hidden reference)": "hidden reference",
  "(anchor)": "low anchor, 3.5 kHz",
  "(mid anchor)": "mid-range anchor, 7 kHz",
};

function mushra({ means, screening }) {
  return [
    table(
      "Mean ratings, 0 to 100",
      heads("system", "mean", "n"),
      means.map(({ system, mean }) => row(SYSTEMS[system] ?? system, estimate(mean, 1), figure(mean.n))),
    ),
    screening.length > 0 && table(
      "Screening (ITU-R BS.1534-3): share of trials",
      heads("listener", "hidden reference below 90", "mid-range anchor above 90", "outcome"),
      screening.map(({ listener, missed_reference: missed, taken_anchor: taken, excluded }) =>
        row(listener, share(missed), share(taken), excluded ? "excluded: more than 15 %" : "counted"),
      ),
    ),
    screening.some(({ taken_anchor: taken }) => taken === null) &&
      make("p", { class: "note" }, `${NONE}: all trials are excluded, because more than a quarter of the listeners rated the mid-range anchor above 90, or there is no anchor.`),
  ];
}

function share(of) {
  return figure(of === null ? NONE : `${number(100 * of, 0)} %`);
}

function exports(test, { kind, runs, imports = [] }) {
  const address = path("api", "listen", test, "votes.csv");
  const link = (run) =>
    make(
      "a",
      { href: withQuery(address, { run }), download: "" },
      run ? `Ratings of ${run} as CSV` : "Votes as CSV",
    );
  return [
    make("p", { class: "actions" }, kind === "rating" ? runs.map(link) : link()),
    imports.length > 0 &&
      make(
        "p",
        { class: "note" },
        "To import the votes, run these commands in the folder that contains the runs:",
        imports.map((command) => [make("br"), make("code", {}, command)]),
      ),
  ];
}
