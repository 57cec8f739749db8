// Show a badge for each judge: its scores of the latest turn, and the time that it took.
import { fill, make } from "./web/elements.js";
import { seconds } from "./web/format.js";

const MOST_VALUES = 2;
const JUDGING = "judging …";

export class ScoreBadges {
  constructor() {
    this.judges = new Map();
    this.turn = null;
    this.element = make("ul", { class: "stage-scores", "aria-label": "Scores", hidden: true });
  }

  /** Make a badge for each judge. @param {Array<{name: string, missing: ?string}>} judges */
  expect(judges) {
    this.element.hidden = !judges.length;
    for (const { name, title, missing } of judges) {
      const values = make(
        "div",
        { class: "stage-values" },
        missing ? ["not installed", make("p", {}, missing)] : "–",
      );
      const state = make("span", { class: "stage-took" });
      const badge = make("li", { title, "data-judge": name }, make("b", {}, name), state, values);
      badge.toggleAttribute("data-missing", Boolean(missing));
      this.judges.set(name, { badge, values, state, missing });
      this.element.append(badge);
    }
  }

  /** Show that a measured turn is being judged. */
  begin({ turn, number, failure }) {
    if (turn === this.turn || failure) return;
    this.turn = turn;
    this.number = number;
    for (const { state, missing } of this.judges.values()) {
      if (!missing) state.textContent = JUDGING;
    }
  }

  /** The conversation has ended: no more scores arrive. */
  conclude() {
    for (const { state } of this.judges.values()) {
      if (state.textContent === JUDGING) state.textContent = "skipped";
    }
  }

  show({ turn, number, judge, scores, problems, seconds: taken, late }) {
    const shown = this.judges.get(judge);
    if (!shown || number < (shown.number ?? 0)) return; // newer turns are scored first
    shown.number = number;
    fill(
      shown.values,
      scores.slice(0, MOST_VALUES).map(({ title, value }) => make("p", {}, make("strong", {}, value), " ", title)),
      !scores.length && make("p", {}, "no score"),
      problems.map(({ reason }) => make("p", { class: "failure" }, reason)),
    );
    const of = turn === this.turn ? "" : " · earlier turn";
    shown.state.textContent = `${taken ? seconds(taken, 1) : ""}${late ? " · late" : ""}${of}`;
    shown.badge.toggleAttribute("data-late", late);
  }
}
