// Show the run's row in the paper's tables, and its scores against latency.
import { path, read } from "./api.js";
import { NARROW, fill, make, problem, table } from "./web/elements.js";
import { plot } from "./web/plot.js";
import { about, headingOf } from "./web/scores.js";

const FRONT =
  "The largest dot is the run (median voice to voice, mean score, 95 % intervals), a pale dot a turn. The Pareto " +
  "front of the turns has a dashed line and solid dots, which open their turns: no other turn is at least as fast and " +
  "as good, and better in one.";

/** Show the tables and plots of a run, if it has scores. */
export async function showPaper(place, id, term, signal) {
  try {
    const { tables, trade_offs: plots, note } = await read(path("api", "runs", id, "paper"), { signal });
    fill(
      place,
      tables.length > 0 && [
        make("h2", {}, "This run and the paper", term("scores")),
        make("p", { class: "note" }, note),
        tables.map((one) =>
          make(
            "details",
            { class: "block", open: !NARROW.matches },
            make("summary", {}, one.title),
            board(one),
            one.notes.map((text) => make("p", { class: "note" }, text)),
          ),
        ),
      ],
      plots.length > 0 && [
        make("h2", {}, "Scores against latency", term("front")),
        make("p", { class: "note" }, FRONT),
        plots.map((chart) =>
          make(
            "figure",
            { class: "chart" },
            make("figcaption", {}, chart.title),
            plot(chart, "see the tables of scores and turns for the values"),
            make("p", { class: "note" }, chart.note),
          ),
        ),
      ],
    );
  } catch (error) {
    if (!signal.aborted) fill(place, problem(error));
  }
}

function board({ title, columns, rows }) {
  const heads = columns.map(({ title: name, scores, definition, higher_is_better }) => ({
    label: [
      headingOf({ heading: name, higher_is_better }),
      about({ name: scores.join(", "), heading: name, title: name, definition }),
    ],
  }));
  const drawn = rows.map(({ name, remark, published, cells }) =>
    make(
      "tr",
      { class: published ? "published" : "ours" },
      make("td", {}, name, make("small", {}, remark)),
      cells.map(({ value, mark, extras }) =>
        make("td", {}, value, mark && make("sup", {}, mark), extras.map((text) => make("small", {}, text))),
      ),
    ),
  );
  return table(`${title}: this run and published models`, ["model", ...heads], drawn, { class: "board" });
}
