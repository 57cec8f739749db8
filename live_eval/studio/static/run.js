// Show a run with its facts, values and turns, or a campaign with its runs and a link to its page.
import { StudioError, path, post, read } from "./api.js";
import { NARROW, announce, button, figure, fill, make, problem, row, table } from "./web/elements.js";
import { about, headingOf } from "./web/scores.js";
import { heatMap } from "./web/heat_map.js";
import { NONE, bounds, counted, number, when, words } from "./web/format.js";
import { glossary } from "./glossary.js";
import { licenceNotes } from "./licences.js";
import { showPaper } from "./paper.js";
import { follow, gently, progressBar, stateBadge } from "./progress.js";
import { TurnTable } from "./turn_table.js";

const RESUMING_MS = 500;
const KEPT = "\u00a0"; // keeps a definition's button on the line of the last word

export async function show(place, { parts: [id], query, signal }) {
  const [folder, term] = await Promise.all([read(path("api", "runs", id, "facts"), { signal }), glossary()]);
  if (folder.problem) throw new StudioError("unreadable", folder.problem);
  if (folder.kind !== "run") {
    showCampaign(place, await read(path("api", "runs", id), { signal }));
    return folder.name;
  }
  const title = make("h2", { tabindex: "-1" }, "Turns", term("turn"));
  const toTurns = () => {
    title.scrollIntoView();
    title.focus({ preventScroll: true });
  };
  const head = make("div", {}, heading(folder, toTurns));
  const figures = make("div", {}, make("p", { class: "note", role: "status" }, "Computing the values …"));
  const progress = make("div", { class: "in-progress" });
  const turns = make("div", { class: "turn-list" });
  // Values link to their turns, which would otherwise be far below the first screen.
  if ([...query.keys()].length) title.dataset.arrival = "";
  fill(place, head, noteOf(folder, signal), progress, figures, title, turns);
  const list = new TurnTable(turns, id, query, { term, signal });
  await list.load();
  const load = () => loadFigures(figures, id, term, signal);
  load(); // in the background, because intervals over thousands of turns take seconds
  const parts = { head, progress, load, list, toTurns };
  if (folder.state === "running") followRun(folder, parts, signal);
  else followResumed(id, parts, signal).catch((error) => signal.aborted || fill(progress, problem(error)));
  return folder.name;
}

/** Follow a run that the studio is resuming, once its command has begun to write. */
async function followResumed(id, parts, signal) {
  const isStarted = (runs) => runs.some((run) => run.id === id && run.running);
  while (isStarted(await read("/api/started", { signal }))) {
    const folder = await read(path("api", "runs", id, "facts"), { signal });
    if (folder.state === "running") {
      followRun(folder, parts, signal);
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, RESUMING_MS));
  }
}

/** Make a field for a note on the run, which the list of runs displays. */
function noteOf({ id, note }, signal) {
  const field = make("textarea", { name: "note", rows: "1", maxlength: "4000", placeholder: " " }, note);
  const state = make("span", { class: "note", role: "status" });
  field.addEventListener("change", async () => {
    try {
      await post(path("api", "runs", id, "note"), { note: field.value });
      fill(state, "Saved.");
    } catch (error) {
      if (!signal.aborted) fill(state, `Not saved: ${error.message}`);
    }
  });
  return make("div", { class: "review" }, make("label", { class: "note-field" }, "Note", field), state);
}

/** Show the values; return the run's row in the list, or null after an error. */
async function loadFigures(place, id, term, signal) {
  try {
    const answer = await read(path("api", "runs", id), { query: { cues: "0" }, signal });
    const { cues, paper } = showFigures(place, id, term, answer);
    await loadCues(cues, id, term, signal);
    await showPaper(paper, id, term, signal);
    return answer.folder;
  } catch (error) {
    if (!signal.aborted) fill(place, problem(error));
    return null;
  }
}

/** Show the cue sensitivity and the scores by cue, which take as long as all other values. */
async function loadCues(place, id, term, signal) {
  try {
    const { cue_sensitivity: sensitivity, cue_maps: maps } = await read(path("api", "runs", id, "cues"), { signal });
    fill(
      place,
      sensitivity && answer(sensitivity, term),
      maps.length > 0 && make("h2", {}, "Scores by cue", term("by cue")),
      maps.map((map) => heatMap(map, { turns: (row) => `${sorted(id)}?${new URLSearchParams(row)}` })),
    );
  } catch (error) {
    if (!signal.aborted) fill(place, problem(error));
  }
}

/** Make the heading of a folder, with links to a run's report and turns, or to a campaign's page. */
function heading(folder, toTurns = null, page = null) {
  const facts = [
    folder.endpoint && ["endpoint", folder.endpoint],
    folder.model && ["model", folder.model],
    folder.conditions.length && ["settings", folder.conditions.join(", ")],
    folder.data && ["data", folder.data],
    ["started", when(folder.created)],
    folder.ended && ["ended", when(folder.ended)],
  ].filter(Boolean);
  return [
    make(
      "p",
      { class: "kicker" },
      make("a", { href: "#/runs" }, "Runs"),
      folder.campaign && [" · ", make("a", { href: `#/runs/${folder.campaign}` }, "campaign")],
    ),
    make("h1", {}, folder.name, " ", folder.state !== "finished" && stateBadge(folder)),
    make(
      "p",
      { class: "facts" },
      facts.map(([name, text], index) => [index ? " · " : "", `${name} `, make("b", {}, text)]),
    ),
    licenceNotes([folder.licence]),
    toTurns &&
      make("p", { class: "ways" }, button("Turns", toTurns, { class: "link" }), make("a", { href: `#/report?run=${folder.id}` }, "Report")),
    page,
  ];
}

function followRun({ id, name }, { head, progress, load, list, toTurns }, signal) {
  const refresh = gently(async () => {
    await list.load();
    await load();
  });
  follow(id, signal, {
    progress: (now) => {
      fill(progress, progressBar(name, now));
      refresh();
    },
    problem: (message) => fill(progress, make("p", { class: "failure", role: "alert" }, message)),
    end: async () => {
      fill(progress);
      await list.load().catch(() => {});
      const folder = await load();
      if (!folder) return;
      fill(head, heading(folder, toTurns));
      announce(`${name}: ${folder.state}`);
    },
  });
}

// -- Values ------------------------------------------------------------------------------------------------------

function showFigures(
  place,
  id,
  term,
  {
    turns,
    estimator,
    latency_ms: latencies,
    scores,
    vocal_sounds: sounds,
    titles,
    main_scores: main,
    tasks,
    failures,
    retried,
    lag_ms: lag,
    could_not_run: absent,
    unread_scores: unread,
  },
) {
  const kinds = (counts) =>
    Object.entries(counts)
      .map(([kind, count]) => `${count} ${words(kind)}`)
      .join(", ");
  const again = kinds(retried);
  const captured = `of ${counted(turns.total, "turn")} captured${again && `; attempts retried: ${again}`}`;
  const tiles = [
    tile(["turns", KEPT, term("captured", "turns")], `${turns.captured}`, captured, sorted(id)),
    turns.failed > 0 && tile("failed", turns.failed, kinds(failures), `${sorted(id)}?status=failed`, "bad"),
    ...["p50", "p95"].map((share) => {
      const { n, n_missing: missing, uncertain, [share]: value, ...other } = latencies.voice_to_voice;
      const more = [
        n > 0 && (bounds(other[`${share}_interval`], 0) || unbounded(other[`${share}_reason`], value)),
        `n\u00a0${n}`,
        uncertain.n > 0 && `${uncertain.n} uncertain`,
        missing > 0 && `${missing} missing`,
      ];
      return tile(
        [`voice to voice, ${share}, ${estimator}`, KEPT, term("voice to voice")],
        inUnit(value, 0),
        more.filter(Boolean).join(", "),
        `${sorted(id)}?sort=voice_to_voice&descending=1`,
      );
    }),
    ...Object.entries(sounds)
      .filter(([, { n }]) => n > 0)
      .map(([name, { p50, p50_interval: interval, p50_reason: reason, n }]) =>
        tile(
          [`${titles[name]}, p50`, KEPT, term(titles[name])],
          inUnit(p50, 0),
          [bounds(interval, 0) || unbounded(reason, p50), `n\u00a0${n}`].filter(Boolean).join(", "),
        ),
      ),
    ...main.map(({ task, score, mean, missing }) =>
      tile(
        [Object.keys(tasks).length > 1 && `${task}: `, headingOf(score), KEPT, about(score)],
        number(mean.value, 2),
        [bounds(mean.interval, 2), `n\u00a0${mean.n}`, missing.length && `not judged: ${missing.join(", ")}`]
          .filter(Boolean)
          .join(", "),
        `${sorted(id)}?sort=${encodeURIComponent(score.name)}`,
      ),
    ),
    tile(
      ["error bar (lag), p99", KEPT, term("lag")],
      inUnit(lag.p99, 1),
      counted(lag.flagged, "turn") + " flagged",
      lag.flagged ? `${sorted(id)}?flagged=1` : null,
    ),
  ];
  const entries = Object.entries(scores);
  const rows = entries.map(
    ([name, { mean, n, n_unscored: unscored, n_failed: broken, interval, version }]) => {
      const column = scores[name].column;
      return row(
        [
          make("a", { href: `${sorted(id)}?sort=${encodeURIComponent(name)}` }, headingOf(column)),
          about(column),
          make("small", { class: "of" }, name),
        ],
        figure(number(mean, 2), interval && make("small", {}, ` (${bounds(interval, 2)})`)),
        figure(n),
        figure(unscored),
        figure(broken),
        version,
      );
    },
  );
  const heads = [
    "score",
    ...["mean (95 % interval)", "n", "unscored", "failed"].map((label) => ({ label, figure: true })),
    "judge version",
  ];
  const comparing = make("p", { class: "note", role: "status" }, "Comparing the cues …");
  const cues = place.querySelector(".cues") ?? make("div", { class: "cues" }, comparing); // kept for a run in progress
  const paper = place.querySelector(".paper") ?? make("div", { class: "paper" });
  fill(
    place,
    unread && make("p", { class: "warning" }, `In this run, ${unread}.`),
    make("div", { class: "tiles" }, tiles),
    cues,
    paper,
    rows.length > 0 && make("h2", {}, "Scores", term("scores")),
    rows.length > 0 &&
      make(
        "details",
        { class: "block", open: rows.length <= 14 && !NARROW.matches },
        make("summary", {}, counted(rows.length, "score")),
        table(`Mean scores, ${estimator}; a name sorts the turns by that score, the lowest first`, heads, rows, { class: "cards" }),
      ),
    Object.entries(absent).map(([judge, reason]) =>
      make("p", { class: "warning" }, `${judge} could not run: ${reason}`),
    ),
  );
  return { cues, paper };
}

/** Show whether the replies change with the user's voice. */
function answer({ in_words: inWords, p, components, scripts, notes }, term) {
  const how = `Compared by ${components.join(" and ")}, over ${scripts} scripts. live-eval cue-sensitivity shows every measure, including one by meaning.`;
  const remarks = notes.map((note) => ` ${note[0].toUpperCase()}${note.slice(1)}.`);
  return [
    make("p", { class: "answer" }, make("b", {}, "Does the reply depend on the user's voice?"), ` ${inWords}`, KEPT, term("cue sensitivity")),
    (p !== null || remarks.length > 0) && make("p", { class: "note" }, p !== null && how, remarks),
  ];
}

/** Format milliseconds for a tile, with a small unit. */
function inUnit(value, digits) {
  return value === null ? NONE : [number(value, digits), make("small", {}, " ms")];
}

/** State why a value, or only its interval, is missing. */
function unbounded(reason, value) {
  return reason && value !== null ? `no interval: ${reason}` : reason;
}

function sorted(id) {
  return `#/runs/${id}`;
}

function tile(what, value, more, href, kind = "") {
  return make(
    "div",
    { class: "tile" },
    make("span", { class: "what" }, what),
    make(href ? "a" : "span", { class: `value ${kind}`, href }, value),
    make("span", { class: "more" }, more),
  );
}

// -- Campaigns ---------------------------------------------------------------------------------------------------

function showCampaign(place, { folder, runs }) {
  const page = folder.kind === "campaign" ? "latency" : "duplex";
  const rows = runs.map((run) =>
    row(
      make("a", { href: `#/runs/${run.id}` }, run.name),
      run.problem ?? run.state ?? NONE,
      figure(run.turns ?? NONE),
      figure(run.failed ?? NONE),
    ),
  );
  fill(
    place,
    heading(folder, null, make("p", {}, make("a", { href: `#/${page}/${folder.id}` }, `${page === "latency" ? "Latency" : "Duplex"} page`))),
    table(
      "Runs of the campaign",
      ["run", "state", { label: "turns", figure: true }, { label: "failed", figure: true }],
      rows,
    ),
    licenceNotes(runs.map((run) => run.licence)),
  );
}
