// Show the list of runs and campaigns with live progress, or a single run or campaign.
import { path, read, withQuery } from "./api.js";
import { licenceNotes } from "./licences.js";
import { follow, progressBar, stateBadge, stateOf } from "./progress.js";
import { badge, button, choice, figure, fill, make, search, table } from "./web/elements.js";
import { NONE, counted, milliseconds, number, when } from "./web/format.js";
import { headingOf } from "./web/scores.js";
import { Listing, filters, pageOf, searched } from "./web/listing.js";

const AGAIN_MS = 5_000;
const MOST_COMPARED = 6;
const QUERY = ["filter", "kind", "state", "sort", "descending", "offset"];
const VALUES = ["voice_to_voice", "main_score"]; // columns that are read run by run
const KINDS = [
  ["", "all"],
  ["run", "runs"],
  ["campaign", "latency campaigns"],
  ["duplex", "duplex campaigns"],
];

export async function show(place, { parts, query, signal }) {
  if (parts.length) {
    const { show: showRun } = await import(parts[1] === "turns" ? "./turn.js" : "./run.js");
    return showRun(place, { parts, query, signal });
  }
  const list = new RunList(place, query, signal);
  await list.refresh();
  const timer = setInterval(() => document.hidden || list.again(), AGAIN_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  return "Runs";
}

/** The run list, with filters, live progress, and selection for comparison. */
class RunList {
  constructor(place, query, signal) {
    this.signal = signal;
    this.chosen = new Set();
    this.followed = new Map(); // for runs in progress: function that stops following, and latest progress
    this.cells = new Map();
    this.opened = new Set(); // campaigns with their runs listed
    this.keys = new Map(); // values of runs that have ended
    this.runs = null;
    this.frame = make("div", {});
    this.compare = make("div", { class: "actions" });
    this.states = make("span", { class: "selects" });
    const asked = Object.fromEntries(QUERY.map((name) => [name, query.get(name) ?? ""]));
    const form = filters("Runs", search("filter", asked.filter), choice("Kind", "kind", KINDS, asked.kind), this.states);
    const pages = make("p", { class: "pages" });
    this.failure = make("p", { class: "failure", role: "alert", hidden: true });
    this.listing = new Listing(
      { form, frame: this.frame, pages, noun: "runs" },
      async (asked) => this.matching(asked),
      (answer) => this.draw(answer),
      { asked, all: true, signal, changed: () => history.replaceState(null, "", withQuery("#/runs", asked)) },
    );
    fill(place, make("h1", {}, "Runs"), form, this.compare, this.failure, this.frame, pages);
  }

  /** Read the list again; report an error. */
  async again() {
    let message = "";
    try {
      await this.refresh();
    } catch (error) {
      message = error.message;
    }
    if (this.signal.aborted || this.failure.textContent === message) return;
    this.failure.textContent = message;
    this.failure.hidden = !message;
  }

  async refresh() {
    const runs = await read("/api/runs", { signal: this.signal });
    const text = JSON.stringify(runs);
    if (text === this.text) return; // redrawing would lose the focus
    this.runs = ordered(runs);
    for (const run of this.runs) this.value(run);
    this.text = text;
    const there = new Set(runs.map((run) => run.id));
    for (const id of this.chosen) if (!there.has(id)) this.chosen.delete(id);
    this.drawStates([...new Set(runs.map(stateOf))].sort());
    await this.listing.refresh();
  }

  drawStates(states) {
    if (String(states) === this.known) return;
    this.known = String(states);
    fill(this.states, choice("State", "state", [["", "all"], ...states], this.listing.asked.state));
  }

  matching({ filter, kind, state, sort, descending, ...part }) {
    const text = (run) =>
      [run.name, run.endpoint, run.model, run.data, run.kind, run.problem, run.note, ...run.conditions].join(" ").toLowerCase();
    const asked = filter || kind || state; // a search includes the runs of campaigns
    const folded = (run) => !asked && this.owner(run) && !this.opened.has(run.campaign);
    const found = searched(this.runs, filter, text).filter(
      (run) => (!kind || run.kind === kind) && (!state || stateOf(run) === state) && !folded(run),
    );
    return pageOf(sort ? sortedBy(found, sort, descending ? -1 : 1) : found, this.runs, part);
  }

  draw({ rows: runs }) {
    this.cells.clear();
    const heads = [
      "select",
      { label: "run", sort: "name" },
      "state",
      { label: "turns", sort: "turns", figure: true },
      { label: "failed", sort: "failed", figure: true },
      { label: ["voice to voice", make("small", { class: "of" }, "p50, all turns")], sort: "voice_to_voice", figure: true },
      { label: ["main score", make("small", { class: "of" }, "mean, all turns")], sort: "main_score", figure: true },
      { label: "endpoint", sort: "endpoint" },
      "settings",
      { label: "data", sort: "data" },
      { label: "started", sort: "created" },
    ];
    fill(
      this.frame,
      runs.length
        ? table(
            "Runs and campaigns, latest first",
            heads,
            runs.map((run) => this.row(run)),
            { class: "runs cards" },
          )
        : make(
            "p",
            { class: "note" },
            this.runs.length
              ? "No run matches."
              : "No runs yet. Create one with `live-eval run reference --data sample`.",
          ),
      licenceNotes(this.licences(runs)),
    );
    this.drawActions();
    this.followRunning();
    this.readKeys(runs);
  }

  /** Return the licence notes of rows and of the runs in their campaigns. */
  licences(rows) {
    const ids = new Set(rows.map((run) => run.id));
    return this.runs.filter((run) => ids.has(run.id) || ids.has(run.campaign)).map((run) => run.licence);
  }

  /** Return the campaign of a run, if it is listed. */
  owner(run) {
    return run.campaign && this.runs.find((each) => each.id === run.campaign);
  }

  /** Read the values of the listed runs, or of all to sort by values, one by one: a long run takes seconds. */
  async readKeys(runs) {
    this.reading = runs;
    const sorts = VALUES.includes(this.listing.asked.sort);
    let added = false;
    for (const run of sorts ? this.runs : runs) {
      const kept = this.keys.get(run.id);
      if (run.kind !== "run" || run.problem || run.state === "running" || !run.turns || kept?.turns === run.turns) continue;
      const key = await read(path("api", "runs", run.id, "key"), { signal: this.signal }).catch(({ message }) => ({ problem: message }));
      if (this.signal.aborted) return;
      this.keys.set(run.id, { turns: run.turns, key });
      this.drawKey(run);
      if (this.reading !== runs) return; // the user has moved to another page
      added = true;
    }
    if (sorts && added) await this.listing.refresh();
  }

  /** Add the values that have been read to a run. */
  value(run) {
    const key = this.keys.get(run.id)?.key;
    run.voice_to_voice = key?.voice_to_voice?.p50 ?? null;
    run.main_score = key?.main_scores?.[0]?.mean.value ?? null;
    run.scored_by = key?.main_scores?.[0]?.score.name ?? null;
    return key;
  }

  drawKey(run) {
    const cells = this.cells.get(run.id);
    const key = this.value(run);
    if (!cells || !key) return;
    if (key.problem) {
      fill(cells.score, make("small", { class: "failure" }, key.problem));
      return;
    }
    fill(
      cells.latency,
      milliseconds(run.voice_to_voice),
      key.vocal_sounds.map(({ title, p50, n }) =>
        make("small", { class: "of" }, `${title.replace("voice to voice ", "")}: ${milliseconds(p50)}, n ${n}`),
      ),
    );
    fill(
      cells.score,
      key.unread_scores && make("small", { class: "failure" }, key.unread_scores),
      key.main_scores.map(({ score, mean }) =>
        make("div", {}, number(mean.value, 2), make("small", { class: "of" }, headingOf(score))),
      ),
      !key.main_scores.length && !key.unread_scores && NONE,
    );
  }

  /** Make a button that shows or hides the runs of a campaign. */
  folding(campaign) {
    const count = this.runs.filter((run) => run.campaign === campaign.id).length;
    const open = this.opened.has(campaign.id);
    const change = () => {
      if (open) this.opened.delete(campaign.id);
      else this.opened.add(campaign.id);
      this.listing.refresh();
    };
    return button(`${open ? "Hide" : "Show"} ${counted(count, "run")}`, change, {
      "aria-expanded": String(open),
      "data-key": `fold-${campaign.id}`,
      class: "fold",
    });
  }

  row(run) {
    const box = make("input", {
      type: "checkbox",
      "aria-label": `Select ${run.name}`,
      "data-key": `choose-${run.id}`,
      checked: this.chosen.has(run.id),
      disabled: run.kind !== "run" || run.problem !== null || !run.turns,
      change: (event) => {
        if (event.target.checked) this.chosen.add(run.id);
        else this.chosen.delete(run.id);
        this.drawActions();
      },
    });
    const name = make("a", { href: `#/runs/${run.id}`, "data-key": `open-${run.id}` }, run.name);
    const owner = this.owner(run);
    const progress = make("td", { class: "state" }, stateBadge(run));
    const turns = figure(run.turns ?? NONE);
    const failed = figure(failedTurns(run, run.failed));
    const latency = figure(NONE);
    const score = figure(NONE);
    this.cells.set(run.id, { run, progress, turns, failed, latency, score });
    this.drawKey(run);
    const made = make(
      "tr",
      {},
      make("td", {}, box),
      make(
        "th",
        { scope: "row" },
        name,
        make(
          "small",
          { class: "of" },
          owner
            ? `of ${owner.name}`
            : run.kind === "run"
              ? ""
              : `${run.kind === "campaign" ? "latency" : "duplex"} campaign`,
        ),
        run.kind !== "run" && this.folding(run),
        run.note && make("small", { class: "of" }, `Note: ${run.note}`),
      ),
      progress,
      turns,
      failed,
      latency,
      score,
      make("td", {}, run.endpoint ?? NONE, run.model && make("small", { class: "of" }, run.model)),
      make("td", { class: "conditions" }, run.conditions.join(", ") || NONE),
      make("td", {}, run.data ?? NONE),
      make("td", {}, when(run.created)),
    );
    if (run.problem)
      fill(
        progress,
        badge(run.schema_ok ? "unreadable" : "other version", "failed"),
        make("small", { class: "of" }, run.problem),
      );
    return made;
  }

  drawActions() {
    const ids = [...this.chosen];
    const names = ids.map((id) => this.runs.find((run) => run.id === id)?.name);
    const go = (hash) => () => {
      location.hash = hash;
    };
    const runs = ids.map((id) => `run=${id}`).join("&");
    fill(
      this.compare,
      make(
        "span",
        { class: "note" },
        ids.length ? `selected: ${names.join(", ")}` : "Select runs to compare or rank.",
      ),
      button("Compare", go(`#/compare/${ids.join("/")}`), { disabled: ids.length < 2 || ids.length > MOST_COMPARED }),
      button("Leaderboard", go(`#/leaderboard?${runs}`), { disabled: ids.length < 1 }),
      button("Report", go(`#/report?${runs}`), { disabled: ids.length < 1 }),
    );
  }

  followRunning() {
    const running = this.runs.filter((run) => run.state === "running").map((run) => run.id);
    for (const [id, { close }] of this.followed) {
      if (running.includes(id)) continue;
      close();
      this.followed.delete(id);
    }
    for (const id of running) {
      if (this.followed.has(id)) this.drawProgress(id);
      else this.follow(id);
    }
  }

  follow(id) {
    const close = follow(id, this.signal, {
      progress: (latest) => {
        this.followed.get(id).latest = latest;
        this.drawProgress(id);
      },
      end: () => this.again(),
    });
    if (close) this.followed.set(id, { close, latest: null });
  }

  drawProgress(id) {
    const { latest } = this.followed.get(id);
    const cells = this.cells.get(id);
    if (!latest || !cells) return;
    fill(cells.progress, progressBar(cells.run.name, latest));
    fill(cells.turns, latest.turns);
    fill(cells.failed, failedTurns(cells.run, latest.failed));
  }
}

/** Make a link to the failed turns of a run, with their number. */
function failedTurns({ id, name, kind }, count) {
  if (!count || kind !== "run") return count ?? NONE;
  return make("a", { href: `#/runs/${id}?status=failed`, "aria-label": `${count} failed: show the turns of ${name}` }, count);
}

/**
 * Sort runs by a value, with missing values last in either order.
 *
 * Values of different scores cannot be compared: the runs with the most frequent main score come first, then the others
 * by score.
 */
function sortedBy(runs, name, sign) {
  if (name === "main_score") {
    const groups = Map.groupBy(runs, ({ scored_by: score }) => score);
    const order = ([one, mine], [other, theirs]) => (one === null) - (other === null) || theirs.length - mine.length;
    return [...groups].sort(order).flatMap(([, group]) => sortedByValue(group, name, sign));
  }
  return sortedByValue(runs, name, sign);
}

function sortedByValue(runs, name, sign) {
  return runs.toSorted(({ [name]: one = null }, { [name]: other = null }) => {
    if (one === null || other === null) return Number(one === null) - Number(other === null);
    if (typeof one === "string") return sign * one.localeCompare(other, "en", { numeric: true });
    return sign * (one - other);
  });
}

/** Sort folders, the latest first; the runs of a campaign follow it. */
function ordered(runs) {
  const began = new Map(runs.map((run) => [run.id, run.created ?? ""]));
  const place = (run) => [began.get(run.campaign) ?? run.created ?? "", run.campaign ?? run.id];
  return runs.toSorted((one, other) => {
    const [[mine, group], [theirs, otherGroup]] = [place(one), place(other)];
    if (mine !== theirs) return mine < theirs ? 1 : -1;
    if (group !== otherGroup) return group < otherGroup ? -1 : 1;
    return Boolean(one.campaign) - Boolean(other.campaign);
  });
}
