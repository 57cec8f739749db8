// Compare replies of several runs to the same cases by ear: a row per case, played in sync, with keys to switch.
import { path, read, withQuery } from "./api.js";
import { example, turnLink } from "./turn_table.js";
import { announce, badge, button, choice, figure, fill, make, problem, row, search, table } from "./web/elements.js";
import { NONE, bounds, counted, milliseconds, number, score, words } from "./web/format.js";
import { answerAnywhere } from "./web/keys.js";
import { Listing, filters } from "./web/listing.js";
import { headingOf } from "./web/scores.js";
import { recording } from "./web/sound.js";

const COLOURS = ["endpoint", "c2", "c3", "c4", "c5", "c0"];
const KEYS = [
  ["J K", "next case, previous case"],
  ["X", "switch to the next run at the same position"],
  ["1 2 …", "hear a run"],
];
const MARKS = "αβγδεζη"; // because digits select runs, and runs may be named a and b
const ORDERS = [
  ["size", "largest difference"],
  ["recorded", "as recorded"],
];
const ORDERS_OF_TWO = [
  ["higher", "the second run highest"],
  ["lower", "the second run lowest"],
];
const ALIGNMENTS = [
  ["onset", "the onset of the replies"],
  ["speech", "the user's speech"],
];
const LEAD_S = 0.3; // context played before the onset
const QUERY = ["filter", "where", "cue", "metric", "order", "offset"];
const LIMIT = 20;
const MOST_CUES = 14; // a longer list is collapsed

/** The list of cases, with the open case above it. */
export class ByEar {
  /**
   * @param {HTMLElement} place
   * @param {Array<{id: string, name: string}>} runs
   * @param {URLSearchParams} query
   * @param {{term: function, signal: AbortSignal}} options `term` makes the button of a definition.
   */
  constructor(place, runs, query, { term, signal }) {
    Object.assign(this, { runs, query, signal, open: null, leaving: null, cases: [], metrics: [] });
    this.align = query.get("align") === "speech" ? "speech" : "onset";
    this.asked = Object.fromEntries(QUERY.map((name) => [name, query.get(name) ?? ""]));
    this.measure = make("span", { class: "selects" });
    const where = search("where", this.asked.where, "Where", { class: "where", spellcheck: "false" });
    this.where = where.querySelector("input");
    const form = filters("Cases", search("filter", this.asked.filter), where, this.measure);
    this.frame = make("div", {});
    this.means = make("div", {});
    this.panel = make("div", { class: "open-case" });
    const pages = make("p", { class: "pages" });
    this.listing = new Listing(
      { form, frame: this.frame, pages, noun: "cases" },
      (asked) => this.read(asked),
      (answer) => this.draw(answer),
      { asked: this.asked, size: LIMIT, changed: () => this.keep() },
    );
    const name = runs.map((run, index) => `${index + 1} ${run.name}`).join(", ");
    fill(
      place,
      make("h2", {}, "By ear", term("by ear")),
      make(
        "p",
        { class: "note" },
        "Open a case to hear the replies of every run, and switch runs at the same position of the reply or, aligned at " +
          `the user's speech, of the recording. The runs: ${name}.`,
      ),
      this.panel,
      form,
      this.means,
      this.frame,
      pages,
    );
    answerAnywhere({ j: () => this.walk(1), k: () => this.walk(-1) }, signal);
    signal.addEventListener("abort", () => this.leaving?.abort());
  }

  read(asked) {
    const query = { ...asked, limit: LIMIT, run: this.runs.map(({ id }) => id) };
    return read("/api/compare/turns", { query, signal: this.signal });
  }

  async load() {
    try {
      await this.listing.refresh();
      await this.reopen();
    } catch (error) {
      if (error.kind !== "request") throw error;
      fill(this.frame, problem(error));
    }
  }

  /** Open the case in the address, even if it is on another page of the list. */
  async reopen() {
    const id = this.query.get("case");
    if (!id) return;
    const quote = id.includes('"') ? "'" : '"';
    const { metric } = this.asked;
    const listed = (rows) => rows.find(({ turn_id: each }) => each === id);
    const found = listed(this.cases) ?? listed((await this.read({ metric, where: `turn == ${quote}${id}${quote}` })).rows);
    if (!found || this.open) return; // the user may have opened another case meanwhile
    this.panel.setAttribute("data-arrival", "");
    this.hear(found, { moves: false });
  }

  /** Store the query and the open case in the address. */
  keep() {
    const { limit, ...asked } = this.asked;
    const address = `#/compare/${this.runs.map(({ id }) => id).join("/")}`;
    history.replaceState(null, "", withQuery(address, { ...asked, common: this.query.get("common"), align: this.align === "onset" ? null : this.align, case: this.open }));
  }

  draw({ rows, metric, asked, metrics, cues, means, failed, invalid, matching, with_difference: compared }) {
    Object.assign(this, { cases: rows, metrics, matching });
    this.metric = metrics.find(({ name }) => name === metric); // of a vocal sound, from the last sound
    this.drawChoices(metrics, cues, asked);
    this.drawMeans(means, failed);
    const heads = [
      "case",
      "cue",
      ...this.runs.map(({ name }) => ({ label: name, figure: true })),
      { label: "difference", figure: true },
    ];
    const title = `${this.title} of each case; a case plays its replies`;
    const lacking = matching - compared;
    const why =
      this.metric.unit === "ms"
        ? "a turn failed or was not run, or its end of speech is uncertain (choose a vocal sound as the cue to compare from the last sound)"
        : "a turn failed, was not run or has no score";
    fill(
      this.frame,
      lacking > 0 &&
        make("p", { class: "note" }, `${counted(lacking, "case")} of ${matching} cannot be compared by ${this.title}: ${why}.`),
      rows.length
        ? table(title, heads, rows.map((one) => this.row(one)), { id: "cases", class: "cards" })
        : invalid
          ? problem({ message: invalid })
          : make("p", { class: "note" }, "No case matches."),
    );
    this.mark();
  }

  /** Show the means by metric if a cue is chosen, and otherwise the means of the chosen metric by cue. */
  drawMeans(means, failed) {
    const { cue } = this.asked;
    const margin = this.runs.length === 2;
    const heads = [
      cue ? "metric" : "cue",
      ...this.runs.map(({ name }) => ({ label: name, figure: true })),
      { label: margin ? "difference (95 % interval)" : "difference", figure: true },
      { label: "n", figure: true },
    ];
    const headed = (metric) => this.metrics.find(({ name }) => name === metric);
    const absent = means.filter(({ n }) => n === 0).map(({ metric, cue: of }) => (cue ? headed(metric).heading : of));
    const rows = means.filter(({ n }) => n > 0).map(({ metric, cue: of, n, means: values, difference, interval }) => {
      const score = headed(metric);
      const shown = (value) => this.show(value, score);
      const other = metric !== this.metric.name && make("small", {}, " ", headingOf(score));
      const name = cue ? headingOf(score) : [this.choosing(of), other];
      const range = interval && make("small", {}, ` (${bounds(interval, score.unit === "ms" ? 0 : 2)})`);
      return row(name, ...values.map((value) => figure(shown(value))), figure(shown(difference), range), figure(n));
    });
    const of = cue ? `Means of ${cue}` : `Mean ${this.title} by cue`;
    const title = `${of}, over the cases with a value in every run${margin ? "; intervals are not corrected for several tests" : ""}`;
    const shown = rows.length > (cue ? 0 : 1) && table(title, heads, rows, { id: "means", class: "cards" });
    const missing =
      absent.length > 0 && make("p", { class: "note" }, `No case has a value in every run for: ${absent.join(", ")}.`);
    const lost = failed.some(Boolean) && `Failed turns, excluded from the means: ${this.runs.map(({ name }, run) => `${name} ${failed[run]}`).join(", ")}.`;
    const notes = [missing, lost && make("p", { class: "warning" }, lost)];
    if (cue || !shown) fill(this.means, shown, notes);
    else {
      const open = this.means.querySelector("details")?.open ?? rows.length <= MOST_CUES;
      fill(this.means, make("details", { class: "block", open }, make("summary", {}, `By cue (${rows.length})`), shown, notes));
    }
  }

  /** Make a button that lists the cases of a cue. */
  choosing(cue) {
    const choose = () => {
      const select = this.measure.querySelector("select[name=cue]");
      select.value = cue;
      select.dispatchEvent(new Event("input", { bubbles: true }));
      select.focus();
    };
    return button(cue, choose, { class: "link" });
  }

  get title() {
    return this.metric.heading;
  }

  drawChoices(metrics, cues, asked) {
    const made = JSON.stringify([metrics, cues]);
    if (made === this.offered) return;
    this.offered = made;
    this.where.placeholder = example(cues, "");
    const named = metrics.map(({ name, heading }) => [name, heading]);
    fill(
      this.measure,
      (cues.length > 1 || this.asked.cue) && choice("Cue", "cue", [["", "all"], ...cues], this.asked.cue),
      choice("Difference in", "metric", named, asked),
      choice("Order", "order", this.runs.length === 2 ? [...ORDERS, ...ORDERS_OF_TWO] : ORDERS, this.asked.order || "size"),
    );
  }

  show(value, { unit } = this.metric) {
    return unit === "ms" ? milliseconds(value) : number(value, 2);
  }

  row(one) {
    const { turn_id: id, text, cue, variant, difference, turns } = one;
    const open = button(id, () => this.hear(one, { plays: true }), { class: "name", "data-key": id });
    return make(
      "tr",
      { "data-case": id },
      make("th", { scope: "row", class: "turn" }, open, make("span", { class: "said" }, text)),
      make("td", { class: "cue" }, cue ?? NONE, make("small", {}, variant)),
      turns.map((turn) =>
        figure(
          turn === null ? "not run" : turn.failure ? badge(words(turn.failure.kind), "failed") : this.show(turn.value),
        ),
      ),
      figure(this.show(difference)),
    );
  }

  /** Highlight the row of the open case. */
  mark() {
    for (const each of this.frame.querySelectorAll("tr[data-case]")) {
      if (each.dataset.case === this.open) each.setAttribute("aria-current", "true");
      else each.removeAttribute("aria-current");
    }
  }

  /** Open the next (1) or previous (-1) case, if necessary from another page of the list. */
  async walk(step) {
    if (this.turning) return; // a key is pressed again before the page has loaded
    const place = this.cases.findIndex((one) => one.turn_id === this.open);
    let next = this.cases[place < 0 ? 0 : place + step];
    const offset = Number(this.asked.offset || 0) + step * LIMIT;
    if (!next && offset >= 0 && offset < this.matching) {
      this.turning = true;
      await this.listing.ask({ offset: offset ? String(offset) : "" });
      this.turning = false;
      next = this.cases.at(step > 0 ? 0 : -1);
    }
    if (next) this.hear(next);
    else announce(step > 0 ? "This is the last case." : "This is the first case.");
  }

  /**
   * Open a case: waveforms in sync, one player, and the replies with their values.
   *
   * @param {object} one Row of the list.
   * @param {object} [options]
   * @param {boolean} [options.plays] Whether to play from the end of speech.
   * @param {boolean} [options.moves] Whether to scroll to the case.
   * @param {boolean} [options.focuses] Whether to focus the choice of the alignment, which is made again.
   */
  async hear(one, { plays = false, moves = true, focuses = false } = {}) {
    this.leaving?.abort();
    this.leaving = new AbortController();
    const { signal } = this.leaving;
    this.open = one.turn_id;
    this.mark();
    this.keep();
    const there = this.runs
      .map((run, index) => ({ ...run, index, turn: one.turns[index] }))
      .filter(({ turn }) => turn !== null);
    const sound = make("div", {}, make("p", { class: "note", role: "status" }, "Loading the replies …"));
    fill(
      this.panel,
      make("h3", {}, one.turn_id, one.cue && make("small", {}, ` ${one.cue}`)),
      one.text && make("p", {}, one.text),
      choice("Aligned at", "align", ALIGNMENTS, this.align, (align) => {
        this.align = align;
        this.hear(one, { moves: false, focuses: true });
      }),
      sound,
      make("div", { class: "replies" }, there.map((run) => this.reply(one, run))),
    );
    if (moves) this.panel.scrollIntoView({ block: "start" });
    if (focuses) this.panel.querySelector("select[name=align]").focus();
    announce(`Case ${one.turn_id}.`);
    try {
      const view = await openReplies(one.turn_id, there, this.align, signal);
      if (signal.aborted) return;
      fill(sound, view ? view.element : make("p", { class: "note" }, "No run has audio of this case."));
      if (plays && view) view.play(view.from);
      await view?.refine();
    } catch (error) {
      if (!signal.aborted) fill(sound, problem(error));
    }
  }

  reply({ turn_id: id }, { id: run, name, index, turn }) {
    const value = this.metric.unit === "ms" ? milliseconds(turn.value) : score(turn.value, this.metric.unit);
    const swatch = make("i", { class: `swatch c-${COLOURS[index]}` });
    return make(
      "div",
      {},
      make("p", {}, swatch, make("b", {}, `${index + 1} ${name}`), ` ${this.title} `, make("b", {}, value)),
      make("p", {}, turn.failure ? badge(words(turn.failure.kind), "failed") : (turn.reply_text ?? "(no text)")),
      make("p", {}, make("a", { href: turnLink(run, id) }, "The turn")),
    );
  }
}

/**
 * Load the recordings of a case and show them on one axis; return null if no run has its audio.
 *
 * The recordings begin with the same speech of the user. Aligned at the onset of the replies, a recording starts later by
 * what its reply is earlier than the slowest one.
 */
async function openReplies(id, runs, align, signal) {
  const loaded = await Promise.all(
    runs.map(async (run) => {
      const address = ["api", "runs", run.id, "turns", id];
      const turn = await read(path(...address), { signal });
      if (!turn.audio.available) return null;
      const [{ seconds }, url] = await Promise.all([
        read(path(...address, "waveform"), { query: { bins: 1 }, signal }),
        blobOf(path(...address, "audio", "both"), signal),
      ]);
      return { ...run, address, seconds, url, marks: turn.marks };
    }),
  );
  const heard = loaded.filter(Boolean);
  if (!heard.length) return null;
  const atOnset = align === "onset";
  const onset = ({ marks }) => marks.find(({ kind }) => kind === "audible")?.at_s;
  const latest = Math.max(...heard.map(onset).filter(Number.isFinite));
  for (const each of heard) each.start = atOnset && Number.isFinite(onset(each)) ? latest - onset(each) : 0;
  const lanes = [
    !atOnset && { key: "user", title: "user" },
    ...heard.map(({ name, index }) => ({ key: `run-${index}`, title: name, colour: COLOURS[index] })),
  ].filter(Boolean);
  const load = async (from, to, columns) => {
    const waves = await Promise.all(
      heard.map(async ({ address, seconds, start }) => {
        const [begin, end] = [Math.max(0, from - start), to - start];
        if (begin >= seconds || end <= 0) return { start_s: from, step_s: 1, user: [], reply: [] };
        const query = { bins: columns, start_s: begin.toFixed(4), end_s: end.toFixed(4) };
        const wave = await read(path(...address, "waveform"), { query, signal });
        return { ...wave, start_s: begin + start };
      }),
    );
    const replies = waves.map(({ start_s, step_s, reply: levels }, place) => [
      `run-${heard[place].index}`,
      { start_s, step_s, levels },
    ]);
    return { start_s: from, step_s: waves[0].step_s, user: waves[0].user, ...Object.fromEntries(replies) };
  };
  const marked = (kind, title) =>
    heard.flatMap(({ name, index, marks, start }) =>
      marks
        .filter((mark) => mark.kind === kind)
        .map((mark) => ({ ...mark, at_s: mark.at_s + start, title: `${name} ${title ?? mark.title}`, colour: COLOURS[index] })),
    );
  const end = atOnset ? marked("end") : heard[0].marks.filter(({ kind }) => kind === "end");
  const audible = marked("audible", "audible");
  const onsets = atOnset && audible.length ? [{ ...audible[0], title: "onset of the replies", colour: undefined }] : audible;
  const sounds = heard.map(({ name, url, index, seconds, start }) => ({
    title: name,
    url,
    seconds,
    start,
    key: String(index + 1),
  }));
  const length = Math.max(...heard.map(({ seconds, start }) => seconds + start));
  const marks = [...end, ...onsets]
    .sort((one, other) => one.at_s - other.at_s)
    .map((mark, place) => ({ ...mark, letter: MARKS[place] }));
  const view = recording({ length, marks, load, lanes, keys: KEYS, zoom: null }, sounds, signal);
  return { ...view, from: atOnset && audible.length ? Math.max(0, latest - LEAD_S) : (end[0]?.at_s ?? 0) };
}

/** Fetch an audio file while a case is open, so that switching runs does not wait for the server. */
async function blobOf(address, signal) {
  const response = await fetch(address, { signal });
  const url = URL.createObjectURL(await response.blob());
  signal.addEventListener("abort", () => URL.revokeObjectURL(url));
  return url;
}
