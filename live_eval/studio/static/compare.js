// The comparison of two runs.
import { read } from "./api.js";
import { button, figure, fill, make, problem, row, table } from "./web/elements.js";
import { counted, number, words } from "./web/format.js";

export async function show(place, { parts: [a, b], query, signal }) {
  const title = "Compare";
  let answer;
  try {
    answer = await read("/api/compare", { query: { a, b, common: query.get("common") === "1" }, signal });
  } catch (error) {
    if (error.kind !== "request" || query.get("common")) throw error;
    const retry = () => {
      location.hash = `#/compare/${a}/${b}?common=1`;
    };
    fill(place, make("h1", {}, title), problem(error), button("Compare common cases", retry));
    return title;
  }
  const {
    first,
    comparisons: [{ other, differs, metrics, notes }],
    correction,
    estimator,
  } = answer;
  const rows = Object.entries(metrics).map(([name, metric]) => {
    const digits = metric.unit === "ms" ? 0 : 3;
    const range = metric.interval
      ? ` [${number(metric.interval[0], digits)}, ${number(metric.interval[1], digits)}]`
      : "";
    const sort = (run) =>
      `#/runs/${run}${metric.kind === "turns" ? "?status=failed" : `?sort=${encodeURIComponent(name)}&descending=1`}`;
    const value = (run, shown) =>
      shown === null
        ? number(shown)
        : make(
            "a",
            { href: sort(run), "aria-label": `${words(name)} ${number(shown, digits)}: show its turns` },
            number(shown, digits),
          );
    return row(
      words(name),
      figure(value(a, metric.first)),
      figure(value(b, metric.other)),
      figure(number(metric.difference, digits), range && make("small", {}, range)),
      metric.unit,
      figure(metric.n),
      make("td", { class: "words" }, metric.in_words),
    );
  });
  const heads = [
    "metric",
    ...[first, other].map((name) => ({
      label: [name, make("small", { class: "of" }, estimator)],
      figure: true,
    })),
    { label: "difference [95 % interval]", figure: true },
    "unit",
    { label: "n", figure: true },
    "summary",
  ];
  const settings = Object.entries(differs).map(([name, values]) =>
    row(name, text(values.first), text(values.other)),
  );
  fill(
    place,
    make("p", { class: "kicker" }, make("a", { href: "#/runs" }, "Runs")),
    make(
      "h1",
      {},
      make("a", { href: `#/runs/${a}` }, first),
      " and ",
      make("a", { href: `#/runs/${b}` }, other),
    ),
    make(
      "p",
      { class: "note" },
      "Differences are paired by case.",
      correction.tests > 0 &&
        ` ${counted(correction.tests, "test")}, p values corrected by ${correction.method}.`,
      " ",
      make("a", { href: `#/report?run=${a}&run=${b}` }, "The report of both"),
      ".",
    ),
    settings.length > 0 && table("Settings that differ", ["setting", first, other], settings),
    notes.map((note) => make("p", { class: "warning" }, note)),
    table(`Values of both runs, ${estimator}; a value opens its turns`, heads, rows),
  );
  return `${first} and ${other}`;
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
