// Show a badge for each judge: its scores of the latest turn, and the time that it took.
import { fill, make } from "./web/elements.js";
import { counted, number as digits, seconds } from "./web/format.js";

const MOST_VALUES = 2;
const JUDGING = "judging …";

const line = (title, value) => make("p", {}, make("strong", {}, value), " ", title);

/** Return the mean of a judge's scores as text, or how often each class was found. */
function inAll(scores) {
  if (scores.every(({ number }) => number !== null)) {
    const mean = scores.reduce((sum, { number }) => sum + number, 0) / scores.length;
    return `${digits(mean, mean < 10 ? 2 : mean < 100 ? 1 : 0)} ${scores[0].unit}`.trimEnd();
  }
  const counts = new Map();
  for (const { value } of scores) {
    const [found] = value.split(",");
    counts.set(found, (counts.get(found) ?? 0) + 1);
  }
  const ordered = [...counts].sort(([, one], [, other]) => other - one);
  return ordered.map(([found, count]) => `${found} ${count}×`).join(", ");
}

export class ScoreBadges {
  constructor() {
    this.judges = new Map();
    this.turn = null;
    this.begun = new Set(); // the numbers of the judged turns
    this.element = make("ul", { class: "stage-scores", "aria-label": "Scores", hidden: true });
  }

  /** Make a badge for each judge. @param {Array<{name: string, missing: ?string}>} judges */
  expect(judges) {
    this.element.hidden = !judges.length;
    for (const { name, title, missing } of judges) {
      const values = make(
        "div",
        { class: "stage-values" },
        missing ? ["cannot score", make("p", {}, `missing: ${missing}`)] : "–",
      );
      const state = make("span", { class: "stage-took" });
      const badge = make("li", { title, "data-judge": name }, make("b", {}, name), state, values);
      badge.toggleAttribute("data-missing", Boolean(missing));
      this.judges.set(name, { badge, values, state, missing, seen: new Map() });
      this.element.append(badge);
    }
  }

  /** Show that a measured turn is being judged. */
  begin({ turn, number, failure }) {
    if (turn === this.turn || failure) return;
    this.turn = turn;
    this.begun.add(number);
    for (const { badge, state, missing, seen } of this.judges.values()) {
      if (missing) continue;
      state.textContent = JUDGING;
      badge.removeAttribute("data-late");
      badge.toggleAttribute("data-earlier", seen.size > 0);
    }
  }

  /** The conversation has ended: show the means of all turns instead of the latest scores. */
  conclude() {
    for (const { badge, values, state, seen } of this.judges.values()) {
      for (const mark of ["data-late", "data-earlier"]) badge.removeAttribute(mark);
      if (state.textContent === JUDGING) state.textContent = "skipped";
      if (!seen.size) continue;
      const turns = Math.max(...[...seen.values()].map((scores) => scores.size));
      const of = turns === this.begun.size ? "" : `${turns} of `;
      state.textContent = `mean, ${of}${counted(this.begun.size, "turn")}`;
      fill(values, [...seen].map(([title, scores]) => line(title, inAll([...scores.values()]))));
    }
  }

  show({ turn, number, judge, scores, problems, seconds: taken, late }) {
    const shown = this.judges.get(judge);
    if (!shown) return;
    for (const score of scores.slice(0, MOST_VALUES)) {
      const seen = shown.seen.get(score.title) ?? new Map();
      shown.seen.set(score.title, seen.set(number, score));
    }
    if (number < (shown.number ?? 0)) return; // newer turns are scored first
    shown.number = number;
    fill(
      shown.values,
      scores.slice(0, MOST_VALUES).map(({ title, value }) => line(title, value)),
      !scores.length && make("p", {}, "no score"),
      problems.map(({ reason }) => make("p", { class: "failure" }, reason)),
    );
    const earlier = turn !== this.turn;
    const of = earlier ? " · earlier turn" : "";
    shown.badge.toggleAttribute("data-earlier", earlier);
    shown.state.textContent = `${taken ? seconds(taken, 1) : ""}${late ? " · late" : ""}${of}`;
    shown.badge.toggleAttribute("data-late", late);
  }
}
