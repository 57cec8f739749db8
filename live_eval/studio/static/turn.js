// A turn: its sound, marks, transcript, figures, reasons and wire events.
import { path, read } from "./api.js";
import { announce, badge, button, figure, fill, make, row, table } from "./dom.js";
import { milliseconds, number, score, seconds, words } from "./format.js";
import { eventList } from "./events.js";
import { behindLatency, behindScore } from "./intervals.js";
import { Player } from "./player.js";
import { Tracks } from "./tracks.js";
import { transcript } from "./transcript.js";
import { neighbours, turnLink } from "./turn_table.js";

/** What is heard before and after an interval that is played, so that it is not heard out of context. */
const AROUND_S = 0.25;

export async function show(place, { parts: [run, , turnId], query, signal }) {
  const address = ["api", "runs", run, "turns", turnId];
  const turn = await read(path(...address), { signal });
  const sound = turn.audio.available ? await openSound(address, turn, signal).catch(() => null) : null;
  const hear = sound && ((interval, title) => sound.hear(interval, title));
  const figures = new Map();
  fill(
    place,
    heading(run, turn),
    turn.failure &&
      make("p", { class: "failure" }, make("b", {}, words(turn.failure.kind)), ": ", turn.failure.message),
    turn.warnings.map(({ kind, message }) =>
      make("p", { class: "warning" }, make("b", {}, words(kind)), ": ", message),
    ),
    sound
      ? sound.element
      : make(
          "p",
          { class: "note" },
          turn.audio.problem ??
            (turn.audio.available ? "The audio of this turn cannot be read." : "This turn has no audio."),
        ),
    section("Transcript", transcript(address, turn.transcript, sound, signal)),
    make(
      "div",
      { class: "halves" },
      section("Latency", latencies(turn, hear, figures)),
      section("Scores", scores(turn, hear, figures)),
    ),
    turn.judgements.some((each) => each.detail) && section("What the judges say", judgements(turn)),
    turn.responses.length > 0 && section("Responses", responses(turn, hear)),
    section("Texts and facts", facts(turn)),
    section(
      "Wire events",
      eventList(address, turn.events, sound && ((at) => sound.hear([at, at], "the event")), signal),
    ),
  );
  if (sound) await sound.tracks.refine();
  const asked = figures.get(query.get("figure"));
  if (asked) asked();
  return turn.turn_id;
}

function heading(run, turn) {
  const { before, after } = neighbours(run, turn.turn_id);
  const link = (id, text) => id !== null && make("a", { href: turnLink(run, id) }, text);
  const cue = turn.cue && (turn.cue.phrase ?? turn.cue.attribute);
  const facts = [words(turn.task), words(turn.variant), cue, turn.topic].filter(Boolean).join(" · ");
  return [
    make(
      "p",
      { class: "kicker ways" },
      make("a", { href: "#/runs" }, "Runs"),
      make("a", { href: `#/runs/${run}` }, "The run"),
      link(before, "← Previous turn"),
      link(after, "Next turn →"),
    ),
    make(
      "h1",
      {},
      turn.turn_id,
      " ",
      turn.flagged && badge("lag", "flagged"),
      " ",
      turn.uncertain && badge("uncertain end", "flagged"),
    ),
    make("p", { class: "facts" }, facts),
  ];
}

function section(title, ...children) {
  return make("section", {}, make("h2", {}, title), children);
}

// -- Sound -------------------------------------------------------------------------------------------------------

async function openSound(address, turn, signal) {
  const { seconds: length } = await read(path(...address, "waveform"), { query: { bins: 1 }, signal });
  const followed = []; // what is highlighted while it is heard
  const move = (at) => {
    tracks.moveTo(at);
    for (const { element, sounds } of followed)
      element.classList.toggle(
        "heard",
        sounds.some(([from, to]) => at >= from && at <= to),
      );
  };
  const follow = (element, sounds) => followed.push({ element, sounds });
  const player = new Player(address, length, signal, move);
  const tracks = new Tracks(address, length, turn.marks, signal, player);
  const hear = ([from, to], title) => {
    tracks.select(from, to);
    player.play(Math.max(0, from - AROUND_S), to + AROUND_S);
    element.scrollIntoView({
      block: "nearest",
      behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
    });
    announce(`Playing ${title}, ${seconds(from)} to ${seconds(to)}.`);
  };
  const end = turn.marks.find((mark) => mark.kind === "end");
  const audible = turn.marks.find((mark) => mark.kind === "audible");
  const views = make(
    "span",
    { class: "choice", role: "group", "aria-label": "View" },
    button("Zoom in", () => tracks.zoom(0.5)),
    button("Zoom out", () => tracks.zoom(2)),
    button("Whole", () => tracks.whole()),
    end &&
      audible &&
      button("Handover", () =>
        tracks.look(Math.min(end.at_s, audible.at_s) - 0.4, Math.max(end.at_s, audible.at_s) + 0.6),
      ),
  );
  player.element.append(views);
  const markList = make(
    "ol",
    { class: "mark-list" },
    turn.marks.map(({ kind, title, at_s: at }, index) =>
      make(
        "li",
        {},
        button(
          [make("i", { class: `swatch m-${kind}` }), `${index + 1} ${title} ${seconds(at)}`],
          () => hear([at, at], title),
          { title: "Play around it" },
        ),
      ),
    ),
  );
  const element = make(
    "section",
    { class: "sound", "aria-label": "Sound" },
    tracks.element,
    player.element,
    markList,
  );
  return { element, tracks, hear, follow };
}

// -- Figures -----------------------------------------------------------------------------------------------------

/** A figure that plays the sound behind it, where there is some; remembered by name for links to it. */
function playable(name, text, interval, hear, figures) {
  if (!hear || !interval) return text;
  const play = () => hear(interval, `${words(name)}, ${text}`);
  figures.set(name, play);
  return button(text, play, {
    class: "plays",
    title: `Play ${seconds(interval[0])} to ${seconds(interval[1])}`,
  });
}

function latencies(turn, hear, figures) {
  const rows = turn.latencies.map(({ name, title, ms, reason }) => {
    const interval = behindLatency(turn, name, ms);
    return row(
      title,
      figure(playable(name, milliseconds(ms), interval, hear, figures)),
      make("td", { class: "reason" }, reason ?? ""),
    );
  });
  rows.push(
    row(
      "lag (error bar)",
      figure(`${number(turn.lag_ms, 1)} ms`),
      make("td", { class: "reason" }, turn.flagged ? "above the limit" : ""),
    ),
  );
  return table(
    "Latencies; a figure plays what lies behind it",
    ["latency", { label: "value", figure: true }, "reason"],
    rows,
  );
}

function scores(turn, hear, figures) {
  if (!turn.scores.length) return make("p", { class: "note" }, "Not scored.");
  const rows = turn.scores.map(
    ({ name, title, unit, value, reason, higher_is_better: higher, judge, version, side }) =>
      row(
        [
          name,
          make(
            "small",
            { class: "of" },
            `${title}${higher === null ? "" : higher ? ", higher is better" : ", lower is better"}`,
          ),
        ],
        figure(
          playable(name, score(value, unit), value === null ? null : behindScore(turn, side), hear, figures),
        ),
        make("td", { class: "reason" }, reason ?? `${judge} ${version}`),
      ),
  );
  return table(
    "Scores; a figure plays what was judged",
    ["score", { label: "value", figure: true }, "reason or judge"],
    rows,
  );
}

function judgements({ judgements: all }) {
  return all
    .filter(({ detail }) => detail && Object.keys(detail).length)
    .map(({ judge, version, status, reason, detail }) => {
      const said = Object.entries(detail);
      const texts = said.filter(([, value]) => typeof value === "string" && value.includes(" "));
      return make(
        "details",
        { class: "judgement", open: texts.length > 0 },
        make("summary", {}, `${judge} ${version} `, status !== "scored" && badge(status, "failed")),
        reason && make("p", { class: "reason" }, reason),
        make(
          "dl",
          { class: "texts" },
          said.map(([name, value]) =>
            make("div", {}, make("dt", {}, words(name)), make("dd", {}, inWords(value))),
          ),
        ),
      );
    });
}

/** What a judge notes, in words: {errors: 0, words: 7} is "errors 0, words 7". */
function inWords(value) {
  if (value === null || typeof value !== "object") return String(value ?? "–");
  const parts = Array.isArray(value)
    ? value.map(inWords)
    : Object.entries(value).map(([name, each]) => `${words(name)} ${inWords(each)}`);
  return parts.join(Array.isArray(value) && value.some((each) => typeof each === "string") ? "\n" : ", ");
}

function responses(turn, hear) {
  const at = (value) =>
    value === null
      ? "–"
      : hear
        ? button(seconds(value), () => hear([value, value], "the response"), { class: "plays" })
        : seconds(value);
  const rows = turn.responses.map((one) =>
    row(
      [one.response_id, " ", one.answers && badge("answers the turn")],
      [one.status, one.reason && make("small", { class: "of" }, one.reason)],
      figure(at(one.created_s)),
      figure(at(one.first_text_s)),
      figure(at(one.first_audio_s)),
      figure(at(one.interrupted_s)),
      figure(at(one.done_s)),
      figure(one.usage ? `${one.usage.input_tokens ?? "–"} / ${one.usage.output_tokens ?? "–"}` : "–"),
    ),
  );
  const heads = [
    "response",
    "status",
    ...["created", "first text", "first audio", "interrupted", "done", "tokens in / out"].map((label) => ({
      label,
      figure: true,
    })),
  ];
  return table("Responses, and when what of them arrived", heads, rows);
}

function facts(turn) {
  const question =
    turn.question &&
    `${turn.question.text} ${turn.question.options.map(([letter, text]) => `${letter}. ${text}`).join(" ")} (key: ${turn.question.answer ?? "none"})`;
  const texts = [
    ["Script", turn.text],
    ["Question", question],
    ["Heard by the endpoint's transcriber", turn.heard_text],
    ["Reply", turn.reply_text],
    ["Read as", turn.question && (turn.chosen ?? "no single option")],
    ["Reference reply", turn.reference_text],
    ...turn.notes.map(({ name, text }) => [name, text]),
  ].filter(([, text]) => text);
  return make(
    "dl",
    { class: "texts" },
    texts.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))),
  );
}
