// The turns of a run; the server searches, filters, sorts and pages them.
import { path, read } from "./api.js";
import { badge, choice, figure, fill, make, search, table } from "./web/elements.js";
import { NONE, milliseconds, number, words } from "./web/format.js";
import { Listing, filters } from "./web/listing.js";
import { about, headingOf } from "./web/scores.js";

const LATENCIES = ["voice_to_voice", "first_byte"];
const MOST_SCORES = 6;
const FILTERS = ["status", "task", "variant", "cue", "speech"];
const LAGS = [
  ["", "all"],
  ["0", "not flagged"],
  ["1", "flagged"],
];

let listed = { run: null, turns: [] };

/** Return the ids of the previous and next turn in the latest list, or null. */
export function neighbours(run, turn) {
  const index = listed.run === run ? listed.turns.indexOf(turn) : -1;
  return index < 0
    ? { before: null, after: null }
    : { before: listed.turns[index - 1] ?? null, after: listed.turns[index + 1] ?? null };
}

/** A link to a value on a turn's page. */
export function turnLink(run, turn, figureName = null) {
  const query = figureName ? `?figure=${encodeURIComponent(figureName)}` : "";
  return `#/runs/${run}/turns/${encodeURIComponent(turn)}${query}`;
}

export class TurnTable {
  constructor(place, run, query, signal) {
    this.run = run;
    this.asked = Object.fromEntries(
      ["filter", "sort", "descending", "flagged", "offset", ...FILTERS].map((name) => [
        name,
        query.get(name) ?? "",
      ]),
    );
    this.selects = make("span", { class: "selects" });
    const form = filters("Turns", search("filter", this.asked.filter), this.selects);
    this.frame = make("div", {});
    const pages = make("p", { class: "pages" });
    this.listing = new Listing(
      { form, frame: this.frame, pages, noun: "turns" },
      (query) => read(path("api", "runs", run, "turns"), { query, signal }),
      (answer) => this.draw(answer),
      { first: "recorded", asked: this.asked, changed: () => this.keep() },
    );
    fill(place, form, this.frame, pages);
  }

  load() {
    return this.listing.refresh();
  }

  /** Store the query in the address. */
  keep() {
    const query = new URLSearchParams(Object.entries(this.asked).filter(([, value]) => value)).toString();
    history.replaceState(null, "", `#/runs/${this.run}${query ? `?${query}` : ""}`);
  }

  draw({ total, rows, scores, choices }) {
    listed = { run: this.run, turns: rows.map((row) => row.turn_id) };
    this.drawFilters(choices);
    const shown = scores.slice(0, MOST_SCORES);
    const heads = [
      { label: "turn", sort: "recorded" },
      "cue",
      ...LATENCIES.map((name) => ({ label: words(name), sort: name, figure: true })),
      ...shown.map((score) => ({
        label: [headingOf(score), about(score)],
        sort: score.name,
        figure: true,
      })),
    ];
    fill(
      this.frame,
      rows.length
        ? table(
            "Turns; a value opens the turn at its audio",
            heads,
            rows.map((row) => this.row(row, shown)),
            { id: "turn-table" },
          )
        : make("p", { class: "note" }, total ? "No turn matches." : "No turns yet."),
    );
  }

  row(turn, scores) {
    const link = (name, text) =>
      text === NONE
        ? text
        : make(
            "a",
            { href: turnLink(this.run, turn.turn_id, name), "data-key": `${turn.turn_id} ${name}` },
            text,
          );
    const said = [turn.text || turn.heard_text, turn.reply_text].filter(Boolean).join(" → ");
    const badges = [
      turn.failure && badge(words(turn.failure.kind), "failed"),
      turn.flagged && !turn.failure && badge("lag", "flagged"),
      turn.uncertain && badge("uncertain end", "flagged"),
      turn.warnings.length > 0 && badge(turn.warnings.map(words).join(", "), "warned"),
    ];
    return make(
      "tr",
      {},
      make(
        "th",
        { scope: "row", class: "turn" },
        make(
          "a",
          { class: "name", href: turnLink(this.run, turn.turn_id), "data-key": turn.turn_id },
          turn.turn_id,
          turn.repeat > 0 && ` (${turn.repeat + 1})`,
        ),
        make("span", { class: "said" }, said),
        badges,
      ),
      make("td", { class: "cue" }, turn.cue ?? NONE, make("small", {}, turn.variant)),
      LATENCIES.map((name) => figure(link(name, milliseconds(turn.latency_ms[name])))),
      scores.map(({ name }) => figure(link(name, number(turn.scores[name], 2)))),
    );
  }

  drawFilters(choices) {
    const made = JSON.stringify(choices);
    if (made === this.choices) return;
    this.choices = made;
    const useful = FILTERS.filter((name) => choices[name].length > 1 || this.asked[name]);
    const select = (label, name, options) => choice(label, name, options, this.asked[name]);
    fill(
      this.selects,
      useful.map((name) => select(name, name, [["", "all"], ...choices[name]])),
      select("lag", "flagged", LAGS),
    );
  }
}
