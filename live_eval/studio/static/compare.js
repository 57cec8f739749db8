// Compare runs: settings that differ, values, and the replies by ear.
import { read } from "./api.js";
import { ByEar } from "./by_ear.js";
import { glossary } from "./glossary.js";
import { licenceNotes } from "./licences.js";
import { button, figure, fill, make, problem, row, table } from "./web/elements.js";
import { bounds, number } from "./web/format.js";
import { about, headingOf } from "./web/scores.js";

export async function show(place, { parts: ids, query, signal }) {
  const values = make("div", { class: "comparing" }, make("p", { class: "note", role: "status" }, "Comparing the values …"));
  const cases = make("section", {});
  const heading = make("h1", {}, "Compare");
  const [term, ...facts] = await Promise.all([glossary(), ...ids.map((id) => read(`/api/runs/${id}/facts`, { signal }))]);
  const runs = facts.map(({ id, name }) => ({ id, name }));
  fill(
    heading,
    runs.map(({ id, name }, index) => [index > 0 && " and ", make("a", { href: `#/runs/${id}` }, name)]),
    term("comparison"),
  );
  const after = make("div", {});
  fill(place, make("p", { class: "kicker" }, make("a", { href: "#/runs" }, "Runs")), heading, values, cases, after);
  const byEar = new ByEar(cases, runs, query, { term, signal });
  await byEar.load();
  const titleOf = (name, title) => {
    const { definition, ...score } = byEar.metrics.find((one) => one.name === name) ?? {};
    return definition
      ? [headingOf(score), about({ ...score, definition }), make("small", { class: "of" }, name)]
      : [title, term(name === "captured" ? name : title)];
  };
  showValues({ values, after }, runs, { query, term, titleOf, signal }); // in the background, because intervals take seconds
  return runs.map(({ name }) => name).join(" and ");
}

async function showValues({ values, after }, runs, { query, term, titleOf, signal }) {
  const ids = runs.map(({ id }) => id);
  let answer;
  try {
    const common = query.get("common") === "1";
    answer = await read("/api/compare", { query: { run: ids, common }, signal });
  } catch (error) {
    if (!signal.aborted) fill(values, problem(error));
    return;
  }
  const licences = licenceNotes(answer.licences);
  if (answer.refused) {
    const retry = () => {
      location.hash = `#/compare/${ids.join("/")}?common=1`;
    };
    const again = !query.get("common") && button("Compare common cases", retry);
    const settings = answer.comparisons.map(({ other, differs }) => settingsTable(answer.first, other, differs, term));
    fill(values, problem({ message: answer.refused }), again, settings, licences);
    return;
  }
  const { first, comparisons, headlines, tests, estimator } = answer;
  fill(
    values,
    comparisons.map(({ other, differs }, index) => {
      const settings = settingsTable(first, other, differs, term);
      return make(
        "div",
        { class: settings ? "halves lead" : "lead" },
        make(
          "p",
          { class: "answer" },
          make("b", {}, `${other} compared with ${first}: `),
          headlines[index],
          " ",
          make("a", { href: swapped(ids, index + 1) }, `Make ${other} the baseline`),
          ".",
        ),
        settings,
      );
    }),
    make(
      "p",
      { class: "note" },
      `Differences are paired by case. ${tests} `,
      make("a", { href: `#/report?${ids.map((id) => `run=${id}`).join("&")}` }, "The report of these runs"),
      ".",
    ),
    licences,
  );
  fill(
    after,
    make("h2", {}, "Values", term("compared values", "Values")),
    comparisons.map((each, index) => [
      each.notes.map((note) => make("p", { class: "warning" }, note)),
      metricTable(each, [runs[0], runs[index + 1]], estimator, titleOf),
    ]),
  );
}

/** Return the address of the same comparison with another run as the baseline. */
function swapped(ids, place) {
  return `#/compare/${[ids[place], ...ids.filter((_, index) => index !== place)].join("/")}`;
}

function settingsTable(first, other, differs, term) {
  const rows = Object.entries(differs).map(([name, { first: one, other: two }]) => row(name, text(one || "none"), text(two || "none")));
  const heads = [{ label: ["setting", term("settings that differ", "setting")] }, first, other];
  return rows.length > 0 && table("Settings that differ", heads, rows, { class: "cards settings" });
}

function metricTable({ metrics }, [first, other], estimator, titleOf) {
  const rows = Object.entries(metrics).map(([name, metric]) => {
    const digits = metric.unit === "ms" ? 0 : 3;
    const range = metric.interval && make("small", {}, ` (${bounds(metric.interval, digits)})`);
    const sort = (run) =>
      `#/runs/${run}${metric.kind === "turns" ? "?status=failed" : `?sort=${encodeURIComponent(name)}&descending=1`}`;
    const value = (run, shown) =>
      shown === null
        ? number(shown)
        : make(
            "a",
            { href: sort(run), "aria-label": `${metric.title} ${number(shown, digits)}: show its turns` },
            number(shown, digits),
          );
    return row(
      titleOf(name, metric.title),
      figure(value(first.id, metric.first)),
      figure(value(other.id, metric.other)),
      figure(number(metric.difference, digits), range),
      metric.unit,
      figure(metric.n),
      figure(probability(metric.p_holm), metric.p !== null && make("small", {}, ` (${probability(metric.p)})`)),
      make("td", { class: "words" }, metric.in_words),
    );
  });
  const heads = [
    "metric",
    ...[first, other].map((run) => ({
      label: [run.name, make("small", { class: "of" }, `${run === first ? "baseline, " : ""}${estimator}`)],
      figure: true,
    })),
    { label: ["difference", make("small", { class: "of" }, `${other.name} − ${first.name} (95 % interval)`)], figure: true },
    "unit",
    { label: "n", figure: true },
    { label: ["p", make("small", { class: "of" }, "corrected (uncorrected)")], figure: true },
    "summary",
  ];
  return table(`Values of ${first.name} and ${other.name}, ${estimator}; a value opens its turns`, heads, rows, { class: "cards" });
}

function probability(p) {
  return p !== null && p < 0.001 ? "< 0.001" : number(p, 3);
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
