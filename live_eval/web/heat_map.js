// Draw scores by cue as a heat map.
import { figure, make, table } from "./elements.js";
import { counted, number } from "./format.js";
import { about, headingOf } from "./scores.js";

/**
 * Make the heat map of a task's scores by cue.
 *
 * The colour of a cell shows its position between the worst and the best cue of its column. Cells with too few scripts
 * are hatched and have no colour. Latencies from the last sound have their own definition, so they have no colour either.
 *
 * @param {object} map Entry of `cue_maps` in `live-eval show --json`.
 * @param {object} options
 * @param {string} [options.of] Name of the run, for the caption.
 * @param {function({task: string, cue: string}): string} options.turns Function that returns the link to a row's turns;
 *     rows whose cues share their last part have none, because lists of turns cannot tell them apart.
 */
export function heatMap({ task, in_words: inWords, fewest_scripts: fewest, scores, rows }, { of = "", turns }) {
  const latency = {
    name: "voice_to_voice",
    heading: "voice to voice, p50",
    title: "voice to voice, median of all turns",
    unit: "ms",
    higher_is_better: false,
    definition:
      "From the end of the user's speech to the first audible sample of the reply, in milliseconds; lower is " +
      "better. Turns with an uncertain end of speech are excluded, except in rows from the last sound: these are vocal " +
      "sounds, and include all turns. Such rows are not coloured.",
  };
  const columns = [latency, ...scores];
  const cells = rows.map((each) => [
    { ...each.voice_to_voice, from: each.from_last_sound && "from the last sound" },
    ...each.scores,
  ]);
  const shares = columns.map((column, place) => sharesOf(cells.map((row) => row[place]), column));
  const heads = ["cue", ...columns.map((column) => ({ label: [headingOf(column), about(column)], figure: true }))];
  const leaves = rows.map(({ cue }) => cue.split(" / ").at(-1));
  const linked = (cue, row) =>
    leaves.filter((leaf) => leaf === leaves[row]).length === 1 ? make("a", { href: turns({ task, cue: leaves[row] }) }, cue) : cue;
  const drawn = rows.map(({ cue, turns: count }, row) => {
    const scripts = Math.max(...cells[row].map((each) => each.scripts));
    return make(
      "tr",
      {},
      make(
        "th",
        { scope: "row" },
        linked(cue, row),
        make("small", { class: "of" }, `${counted(count, "turn")}, ${counted(scripts, "script")}`),
      ),
      columns.map((column, place) => cell(cells[row][place], shares[place][row], column === latency ? 0 : 2, scripts)),
    );
  });
  return [
    inWords && make("p", {}, make("b", {}, inWords)),
    table(`${task[0].toUpperCase()}${task.slice(1)}: scores by cue${of && `, ${of}`}`, heads, drawn, { class: "heat" }),
    make(
      "p",
      { class: "note" },
      "A stronger blue is better: from the worst to the best cue of each column. ",
      make("span", { class: "thin key" }),
      ` Hatched (on paper, dashed): fewer than ${fewest} scripts, too few to compare. n is the number of turns with a value; `,
      "values are medians (latency) and means (scores) over turns.",
    ),
  ];
}

/** Return each value's position between the worst and the best, from 0 to 1; null without a comparison. */
function sharesOf(cells, { higher_is_better: higher }) {
  const compared = cells.filter(isCompared).map(({ value }) => value);
  const [low, high] = [Math.min(...compared), Math.max(...compared)];
  return cells.map((each) => {
    if (!isCompared(each) || high === low) return null;
    const share = (each.value - low) / (high - low);
    return higher ? share : 1 - share;
  });
}

/** Return whether a cell has a value that compares with the others of its column. */
function isCompared({ value, thin, from }) {
  return value !== null && !thin && !from;
}

/** Make a cell; the number of its scripts is shown if it differs from that of the row. */
function cell({ value, n, scripts, thin, from }, share, digits, ofRow) {
  const count = value !== null && [from, `n ${n}`, scripts !== ofRow && counted(scripts, "script")].filter(Boolean).join(", ");
  const made = figure(number(value, digits), count && make("small", { class: "of" }, count));
  if (value !== null && thin) made.classList.add("thin");
  if (share !== null) made.style.setProperty("--share", share.toFixed(3));
  return made;
}
