// The turns of a run: searched, filtered, sorted and paged by the server.
import { path, read } from "./api.js";
import { announce, badge, button, choice, figure, fill, make, table } from "./dom.js";
import { NONE, milliseconds, number, words } from "./format.js";

const PAGE = 100;
const WAIT_MS = 150;
const LATENCIES = ["voice_to_voice", "first_byte"];
const MOST_SCORES = 6;
const FILTERS = ["status", "task", "variant", "cue", "speech"];

let listed = { run: null, turns: [] };

/** Return the turns before and after a turn in the list from which it was opened: ids, or null. */
export function neighbours(run, turn) {
  const index = listed.run === run ? listed.turns.indexOf(turn) : -1;
  return index < 0
    ? { before: null, after: null }
    : { before: listed.turns[index - 1] ?? null, after: listed.turns[index + 1] ?? null };
}

/** A link to a turn's page, which opens at a figure. */
export function turnLink(run, turn, figureName = null) {
  const query = figureName ? `?figure=${encodeURIComponent(figureName)}` : "";
  return `#/runs/${run}/turns/${encodeURIComponent(turn)}${query}`;
}

export class TurnTable {
  constructor(place, run, query, signal) {
    this.run = run;
    this.signal = signal;
    this.asked = Object.fromEntries(
      ["filter", "sort", "descending", "flagged", "offset", ...FILTERS].map((name) => [
        name,
        query.get(name) ?? "",
      ]),
    );
    this.newest = 0;
    this.form = make("form", {
      class: "filters",
      role: "search",
      "aria-label": "Turns",
      submit: (event) => event.preventDefault(),
    });
    this.selects = make("span", { class: "selects" });
    this.count = make("output", {});
    this.search = make("input", { type: "search", name: "filter", value: this.asked.filter });
    this.search.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.ask({ filter: this.search.value }), WAIT_MS);
    });
    fill(this.form, make("label", {}, "Search", this.search), this.selects, this.count);
    this.frame = make("div", {});
    this.pages = make("p", { class: "pages" });
    fill(place, this.form, this.frame, this.pages);
  }

  /** Ask for other turns, and keep what was asked for in the address. */
  async ask(change) {
    Object.assign(this.asked, { offset: "" }, change);
    const query = new URLSearchParams(Object.entries(this.asked).filter(([, value]) => value)).toString();
    history.replaceState(null, "", `#/runs/${this.run}${query ? `?${query}` : ""}`);
    await this.load().catch((error) => {
      if (error.name !== "AbortError")
        fill(this.frame, make("p", { class: "failure", role: "alert" }, error.message));
    });
    announce(this.count.value);
  }

  async load() {
    this.newest += 1;
    const number = this.newest;
    const answer = await read(path("api", "runs", this.run, "turns"), {
      query: { ...this.asked, limit: PAGE },
      signal: this.signal,
    });
    if (number === this.newest) this.draw(answer); // answers may overtake each other
  }

  draw({ total, matching, offset, rows, scores, choices }) {
    listed = { run: this.run, turns: rows.map((row) => row.turn_id) };
    this.drawFilters(choices);
    this.count.value = `${matching.toLocaleString("en")} of ${total.toLocaleString("en")} turns`;
    const shown = scores.slice(0, MOST_SCORES);
    const heads = [
      this.head("turn", "recorded"),
      "cue",
      ...LATENCIES.map((name) => ({ label: this.head(words(name), name), figure: true })),
      ...shown.map(({ name, title }) => ({ label: this.head(name, name, title), figure: true })),
    ];
    const focused = this.frame.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    fill(
      this.frame,
      rows.length
        ? table(
            "Turns; a figure opens the turn at the sound behind it",
            heads,
            rows.map((row) => this.row(row, shown)),
            { id: "turn-table" },
          )
        : make("p", { class: "note" }, total ? "No turn matches." : "No turns yet."),
    );
    this.markSorted();
    if (focused)
      this.frame.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    this.drawPages(matching, offset);
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

  head(label, sort, title = null) {
    const pressed = () => {
      const same = (this.asked.sort || "recorded") === sort;
      this.ask({
        sort,
        descending: same ? (this.asked.descending === "1" ? "" : "1") : sort === "recorded" ? "" : "1",
      });
    };
    return button(label, pressed, { title, "data-sort": sort, "data-key": `sort ${sort}` });
  }

  markSorted() {
    for (const sorter of this.frame.querySelectorAll("[data-sort]")) {
      if (sorter.dataset.sort !== (this.asked.sort || "recorded")) continue;
      sorter
        .closest("th")
        .setAttribute("aria-sort", this.asked.descending === "1" ? "descending" : "ascending");
    }
  }

  drawFilters(choices) {
    const made = JSON.stringify(choices);
    if (made === this.choices) return;
    this.choices = made;
    const useful = FILTERS.filter((name) => choices[name].length > 1 || this.asked[name]);
    fill(
      this.selects,
      useful.map((name) =>
        choice(name, name, [["", "all"], ...choices[name]], this.asked[name], (value) =>
          this.ask({ [name]: value }),
        ),
      ),
      choice(
        "lag",
        "flagged",
        [
          ["", "all"],
          ["0", "not flagged"],
          ["1", "flagged"],
        ],
        this.asked.flagged,
        (flagged) => this.ask({ flagged }),
      ),
    );
  }

  drawPages(matching, offset) {
    const last = Math.min(offset + PAGE, matching);
    const go = (to) => async () => {
      await this.ask({ offset: to ? String(to) : "" });
      this.form.scrollIntoView();
      this.frame.querySelector("a.name")?.focus({ preventScroll: true });
    };
    this.pages.hidden = matching <= PAGE && offset === 0;
    fill(
      this.pages,
      button("Previous", go(Math.max(0, offset - PAGE)), { disabled: offset === 0 }),
      make("span", {}, ` turns ${matching ? offset + 1 : 0} to ${last} `),
      button("Next", go(offset + PAGE), { disabled: last >= matching }),
    );
  }
}
