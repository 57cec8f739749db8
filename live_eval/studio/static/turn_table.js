// The turns of a run; the server searches, filters, sorts and pages them.
import { path, read, withQuery } from "./api.js";
import { badge, choice, figure, fill, make, problem, search, table } from "./web/elements.js";
import { NONE, milliseconds, number, words } from "./web/format.js";
import { Listing, filters } from "./web/listing.js";
import { about, headingOf } from "./web/scores.js";

const LATENCIES = ["voice_to_voice", "first_byte"];
const MOST_SCORES = 6;
const FILTERS = ["status", "task", "variant", "cue", "speech"];
const EXAMPLE = "voice_to_voice > 1200 and cue == sigh";
const HELP =
  "Compare names with values by ==, !=, <, <=, >, >= or contains, and join comparisons with and, or, not and " +
  "parentheses. Quote texts with spaces; none is a missing value. The names:";
const LAGS = [
  ["", "all"],
  ["0", "not flagged"],
  ["1", "flagged"],
];

const QUERY = ["filter", "where", "sort", "descending", "flagged", ...FILTERS];

/** Return the part of an address's query that determines which turns are listed, and in which order. */
export function listQuery(query) {
  return Object.fromEntries(QUERY.map((name) => [name, query.get(name) ?? ""]));
}

/** A link to a turn in a list, or to a value on the turn's page. */
export function turnLink(run, turn, list = {}, figureName = null) {
  const address = `#/runs/${run}/turns/${encodeURIComponent(turn)}`;
  return withQuery(address, { ...Object.fromEntries(QUERY.map((name) => [name, list[name]])), figure: figureName });
}

export class TurnTable {
  constructor(place, run, query, signal) {
    this.run = run;
    this.asked = { ...listQuery(query), offset: query.get("offset") ?? "" };
    this.selects = make("span", { class: "selects" });
    this.names = make("span", { class: "selects" });
    const where = search("where", this.asked.where, "Where", { placeholder: EXAMPLE, class: "where", spellcheck: "false" });
    const form = filters("Turns", search("filter", this.asked.filter), where, this.names, this.selects);
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

  async load() {
    try {
      await this.listing.refresh();
    } catch (error) {
      if (error.kind !== "request") throw error;
      fill(this.frame, problem(error));
    }
  }

  /** Store the query in the address. */
  keep() {
    history.replaceState(null, "", withQuery(`#/runs/${this.run}`, this.asked));
  }

  draw({ total, rows, scores, choices, names, problem: unread }) {
    this.drawFilters(choices, names);
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
      unread && make("p", { class: "warning" }, unread),
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
            { href: turnLink(this.run, turn.turn_id, this.asked, name), "data-key": `${turn.turn_id} ${name}` },
            text,
          );
    const said = [turn.text || turn.heard_text, turn.reply_text].filter(Boolean).join(" → ");
    const badges = [
      turn.failure && badge(words(turn.failure.kind), "failed"),
      turn.flagged && !turn.failure && badge("lag", "flagged"),
      turn.uncertain && badge("uncertain end", "flagged"),
      turn.labels.map((label) => badge(label, "label")),
      turn.note && make("span", { class: "said" }, `Note: ${turn.note}`),
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
          { class: "name", href: turnLink(this.run, turn.turn_id, this.asked), "data-key": turn.turn_id },
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

  drawFilters(choices, names) {
    const made = JSON.stringify([choices, names]);
    if (made === this.choices) return;
    this.choices = made;
    const help = { heading: "the expression", title: "Turns that match an expression", definition: HELP };
    fill(this.names, about({ ...help, name: names.join(", ") }));
    const useful = FILTERS.filter((name) => choices[name].length > 1 || this.asked[name]);
    const select = (label, name, options) => choice(label, name, options, this.asked[name]);
    fill(
      this.selects,
      useful.map((name) => select(name, name, [["", "all"], ...choices[name]])),
      select("lag", "flagged", LAGS),
    );
  }
}
