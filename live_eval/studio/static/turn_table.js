// Show the turns of a run, which the server searches, filters, sorts and pages.
import { path, read, withQuery } from "./api.js";
import { NARROW, badge, button, choice, figure, fill, make, problem, search, table } from "./web/elements.js";
import { NONE, milliseconds, number, words } from "./web/format.js";
import { Listing, filters } from "./web/listing.js";
import { about, headingOf } from "./web/scores.js";
import { save as saveFile } from "./web/sound.js";

// Shown by default; a narrow screen shows the first latency and the main scores, so that its cards stay short.
const LATENCIES = ["voice_to_voice", "first_byte"];
const MOST_VALUES = 7; // columns that fit next to the turn and its cue
const COLUMNS = "live-eval-columns";
const FILTERS = ["status", "task", "variant", "cue", "speech"];
const SOUNDS = "voice_to_voice_from_"; // latencies of turns whose cue is a sigh, breath or sob
const HELP =
  "Compare names with values using ==, !=, <, <=, >, >= or contains, and join comparisons with and, or, not and " +
  "parentheses. Quote texts with spaces; none is a missing value. The names:";
const UNCERTAIN =
  "In parentheses: latencies from an uncertain end of speech. The values above, comparisons and expressions exclude them " +
  "(the expression uncertain selects their turns); sorting places them last.";
const LAGS = [
  ["", "all"],
  ["0", "not flagged"],
  ["1", "flagged"],
];

const QUERY = ["filter", "where", "sort", "descending", "flagged", ...FILTERS];

/** Return the part of an address's query that determines the listed turns and their order. */
export function listQuery(query) {
  return Object.fromEntries(QUERY.map((name) => [name, query.get(name) ?? ""]));
}

/** Return the link to a turn in a list, or to a value on the turn's page. */
export function turnLink(run, turn, list = {}, figureName = null) {
  const address = `#/runs/${run}/turns/${encodeURIComponent(turn)}`;
  return withQuery(address, { ...Object.fromEntries(QUERY.map((name) => [name, list[name]])), figure: figureName });
}

export class TurnTable {
  /** `term` makes the button of a latency's definition; `signal` cancels requests. */
  constructor(place, run, query, { term, signal }) {
    Object.assign(this, { run, term });
    this.asked = { ...listQuery(query), offset: query.get("offset") ?? "" };
    this.selects = make("span", { class: "selects" });
    this.names = make("span", { class: "selects" });
    const where = search("where", this.asked.where, "Where", { class: "where", spellcheck: "false" });
    this.where = where.querySelector("input");
    const form = filters("Turns", search("filter", this.asked.filter), where, this.names, this.selects);
    this.frame = make("div", {});
    const pages = make("p", { class: "pages" });
    this.columns = make("div", { class: "filters columns" });
    this.chosen = readChosen();
    const save = () => saveFile(withQuery(`${path("api", "runs", run, "turns.csv")}`, listQuery(new Map(Object.entries(this.asked)))));
    this.listing = new Listing(
      { form, frame: this.frame, pages, noun: "turns" },
      (query) => read(path("api", "runs", run, "turns"), { query, signal }),
      (answer) => this.draw(answer),
      { first: "recorded", asked: this.asked, changed: () => this.keep(), signal },
    );
    const columns = make("details", {}, make("summary", {}, "Columns"), this.columns);
    const title = "All turns that match, with all columns";
    fill(place, form, make("div", { class: "actions" }, columns, button("Save CSV", save, { title })), this.frame, pages);
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

  draw({ total, rows, titles, certain_only: certain, scores, main, choices, names, invalid, problem: unread }) {
    this.certain = certain;
    this.drawFilters(choices, names);
    const few = NARROW.matches;
    const measured = Object.keys(rows[0]?.latency_ms ?? {});
    this.usual = [...LATENCIES.slice(0, few ? 1 : undefined), ...measured.filter((name) => name.startsWith(SOUNDS))];
    const first = [...new Set([...main, ...(few ? [] : scores.map(({ name }) => name))])];
    this.usual.push(...first.slice(0, Math.max(main.length, MOST_VALUES - this.usual.length)));
    const times = measured.filter((name) => this.shows(name));
    const shown = scores.filter(({ name }) => this.shows(name));
    this.drawColumns(rows, titles, scores);
    const heads = [
      { label: "turn", sort: "recorded" },
      "cue",
      ...times.map((name) => ({ label: [titles[name], this.term(titles[name])], sort: name, figure: true })),
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
            "Turns; a name opens the turn, a value opens the turn at the value's audio",
            heads,
            rows.map((row) => this.row(row, times, shown)),
            { id: "turn-table", class: "cards" },
          )
        : invalid
          ? problem({ message: invalid })
          : make("p", { class: "note" }, total ? "No turn matches." : "No turns yet."),
      rows.some(({ uncertain }) => uncertain) && make("p", { class: "note" }, UNCERTAIN),
    );
  }

  row(turn, times, scores) {
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
        ),
        make("span", { class: "said" }, said),
        badges,
      ),
      make("td", { class: "cue" }, turn.cue ?? NONE, make("small", {}, turn.variant)),
      times.map((name) => figure(link(name, this.latency(turn, name)))),
      scores.map(({ name }) => figure(link(name, number(turn.scores[name], 2)))),
    );
  }

  /** Format a latency, in parentheses if it begins at an uncertain end of speech. */
  latency(turn, name) {
    const text = milliseconds(turn.latency_ms[name]);
    return turn.uncertain && text !== NONE && this.certain.includes(name) ? `(${text})` : text;
  }

  /** Return whether a column is displayed: as chosen by the user, or by default, as is the one that sorts the rows. */
  shows(name) {
    return this.chosen[name] ?? (this.usual.includes(name) || this.asked.sort === name);
  }

  drawColumns(rows, titles, scores) {
    if (!rows.length) return;
    const times = Object.keys(rows[0].latency_ms).map((name) => [name, titles[name]]);
    const all = [...times, ...scores.map(({ name, heading }) => [name, heading])];
    const change = ({ target }) => {
      this.chosen[target.name] = target.checked;
      keepChosen(this.chosen);
      this.load();
    };
    const box = ([name, label]) =>
      make("label", { class: "box" }, make("input", { type: "checkbox", name, change }), ` ${label}`);
    if (this.offered !== String(all)) fill(this.columns, all.map(box)); // otherwise, keep the focus
    this.offered = String(all);
    for (const input of this.columns.querySelectorAll("input")) input.checked = this.shows(input.name);
  }

  drawFilters(choices, names) {
    const made = JSON.stringify([choices, names]);
    if (made === this.choices) return;
    this.choices = made;
    this.where.placeholder = example(choices.cue);
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

/** Return an expression that selects slow turns of a run, with one of its cues, if it has any. */
export function example(cues, latency = "voice_to_voice > 1200 and ") {
  const bare = /^[a-z_][a-z0-9_]*$/;
  const cue = cues.find((name) => name !== "neutral" && bare.test(name)) ?? cues[0];
  if (cue === undefined) return latency && latency.replace(" and ", "");
  const quote = cue.includes('"') ? "'" : '"';
  return `${latency}cue == ${bare.test(cue) ? cue : quote + cue + quote}`;
}

/** The user's choices of columns to show or hide, by name. */
function readChosen() {
  try {
    const stored = JSON.parse(localStorage.getItem(COLUMNS));
    return stored && typeof stored === "object" ? { ...stored } : {};
  } catch {
    return {};
  }
}

function keepChosen(chosen) {
  try {
    localStorage.setItem(COLUMNS, JSON.stringify(chosen));
  } catch {
    // the choice then lasts until the page is closed
  }
}
