// Show a turn: audio, marks, transcript, values, reasons and messages.
import { path, read, withQuery } from "./api.js";
import { eventList } from "./events.js";
import { glossary } from "./glossary.js";
import { behindLatency, behindScore } from "./intervals.js";
import { licenceNotes } from "./licences.js";
import { REVIEW_KEYS, review } from "./review.js";
import { transcript } from "./transcript.js";
import { listQuery, turnLink } from "./turn_table.js";
import { videoButton } from "./turn_video.js";
import { latencies, remark, scores } from "./web/details.js";
import { announce, badge, button, figure, fill, make, row, table, texts } from "./web/elements.js";
import { counted, seconds, words } from "./web/format.js";
import { answerAnywhere } from "./web/keys.js";
import { SIDE_KEYS } from "./web/player.js";
import { handover, recording } from "./web/sound.js";

const SIDES = [
  ["both", "both sides", "b"],
  ["user", "user", "u"],
  ["reply", "reply", "r"],
];
const VIDEO_BINS = 1_000;
const KEYS = [["J K", "next turn, previous turn"], ...REVIEW_KEYS, ...SIDE_KEYS];

export async function show(place, { parts: [run, , turnId], query, signal }) {
  const address = ["api", "runs", run, "turns", turnId];
  const [turn, term] = await Promise.all([read(path(...address), { signal }), glossary()]);
  const sound = turn.audio.available ? await openSound(address, turn, signal).catch(() => null) : null;
  const hear = sound?.hear;
  const figures = new Map();
  const list = listQuery(query);
  const ways = make("p", { class: "kicker ways" });
  showWays(ways, run, turnId, list, signal); // in the background, because the first request reads the whole run
  fill(
    place,
    ways,
    heading(turn, term),
    turn.failure && remark(turn.failure.kind, turn.failure.message),
    turn.warnings.map(({ kind, message }) => remark(kind, message, "warning")),
    sound
      ? sound.element
      : make(
          "p",
          { class: "note" },
          turn.audio.problem ??
            (turn.audio.available ? "The audio of this turn cannot be read." : "This turn has no audio."),
        ),
    section(["Review", term("review")], review(address, signal)),
    section(["Transcript", term("transcript")], transcript(address, turn.transcript, sound, signal)),
    make(
      "div",
      { class: "halves" },
      section(["Latency", term("latency of a turn", "Latency")], measured(turn, term, hear, figures)),
      section(["Scores", term("scores of a turn", "Scores")], turn.unread_scores ? make("p", { class: "warning" }, `In this run, ${turn.unread_scores}.`) : judged(turn, hear, figures)),
    ),
    turn.judgements.some((each) => each.detail) && section(["Judgements", term("judgements")], judgements(turn)),
    turn.responses.length > 0 && section(["Responses", term("responses")], responses(turn, hear)),
    section(["Case and conditions", term("case and conditions")], facts(turn)),
    licenceNotes([turn.licence]),
    section(
      ["Protocol messages", term("protocol messages")],
      eventList(address, turn.events, hear && ((at) => hear([at, at], "the event")), signal),
    ),
  );
  await sound?.refine();
  figures.get(query.get("figure"))?.();
  return turn.turn_id;
}

/** Show links to the run and to the previous and next turn in the list, and handle the keys J and K. */
async function showWays(ways, run, turn, list, signal) {
  const draw = ({ before = null, after = null, place = null, matching = 0 }) => {
    const link = (id, text) => id !== null && make("a", { href: turnLink(run, id, list) }, text);
    fill(
      ways,
      make("a", { href: "#/runs" }, "Runs"),
      make("a", { href: withQuery(`#/runs/${run}`, list) }, "The run"),
      link(before, "← Previous turn"),
      link(after, "Next turn →"),
      place !== null && make("span", {}, `${place} of ${counted(matching, "turn")}`),
    );
  };
  const reading = read(path("api", "runs", run, "turns", turn, "around"), { query: list, signal }).catch(() => ({}));
  const go = (way, none) => async () => {
    const { [way]: id } = await reading; // wait, because a key may be pressed before the response arrives
    if (signal.aborted) return;
    if (id) location.hash = turnLink(run, id, list);
    else announce(none);
  };
  answerAnywhere({ j: go("after", "This is the last turn."), k: go("before", "This is the first turn.") }, signal);
  draw({});
  const around = await reading;
  if (!signal.aborted) draw(around);
}

function heading(turn, term) {
  const cue = turn.cue && (turn.cue.phrase ?? turn.cue.attribute);
  const facts = [words(turn.task), words(turn.variant), cue, turn.topic].filter(Boolean).join(" · ");
  return [
    make(
      "h1",
      {},
      turn.turn_id,
      " ",
      turn.flagged && badge("lag", "flagged"),
      " ",
      turn.uncertain && badge("uncertain end", "flagged"),
    ),
    make("p", { class: "facts" }, facts, term("turn")),
  ];
}

function section(title, ...children) {
  return make("section", {}, make("h2", {}, title), children);
}

// -- Audio -------------------------------------------------------------------------------------------------------

async function openSound(address, turn, signal) {
  const { seconds: length } = await read(path(...address, "waveform"), { query: { bins: 1 }, signal });
  const load = async (from, to, columns) => {
    const interval = { start_s: from.toFixed(4), end_s: to.toFixed(4) };
    const [{ reply: endpoint, ...peaks }, user, reply] = await Promise.all([
      read(path(...address, "waveform"), { query: { bins: columns, ...interval }, signal }),
      ...["user", "reply"].map((side) =>
        read(path(...address, "spectrogram"), { query: { side, columns, ...interval }, signal }),
      ),
    ]);
    return { ...peaks, endpoint, spectra: { user, endpoint: reply } };
  };
  const sounds = SIDES.map(([side, title, key]) => ({ title, key, url: path(...address, "audio", side) }));
  const clip = (url, interval) => {
    const [from, to] = interval ?? [0, length];
    const query = { side: url.split("/").at(-1), start_s: from.toFixed(4), end_s: to.toFixed(4) };
    return withQuery(path(...address, "clip.wav"), query);
  };
  const { marks } = turn;
  const filmed = async () => ({
    turn,
    length,
    url: sounds[0].url,
    peaks: await read(path(...address, "waveform"), { query: { bins: VIDEO_BINS }, signal }),
  });
  const video = videoButton(filmed, signal);
  const drawing = { length, marks, load, spectra: true, keys: KEYS, clip, video, ...handover(marks) };
  return recording(drawing, sounds, signal);
}

// -- Values ------------------------------------------------------------------------------------------------------

/** Make a value that plays its audio, if there is any; it is stored by name for links. */
function playable(name, text, interval, hear, figures) {
  if (!hear || !interval) return text;
  const play = () => hear(interval, `${words(name)}, ${text}`);
  figures.set(name, play);
  return button(text, play, {
    class: "plays",
    title: `Play ${seconds(interval[0])} to ${seconds(interval[1])}`,
  });
}

function measured(turn, term, hear, figures) {
  const play = ({ name, ms }, text) => playable(name, text, behindLatency(turn, name, ms), hear, figures);
  const rows = turn.latencies.map((one) => ({ ...one, title: [one.title, term(one.title)] }));
  const lag = { ms: turn.lag_ms, flagged: turn.flagged, title: ["lag (error bar)", term("lag")] };
  return latencies(rows, lag, hear && play);
}

function judged(turn, hear, figures) {
  const play = ({ name, value, side }, text) =>
    playable(name, text, value === null ? null : behindScore(turn, side), hear, figures);
  const rows = turn.scores.map((one) => ({ ...one, by: `${one.judge}, version ${one.version}` }));
  return scores(rows, hear && play);
}

function judgements({ judgements: all }) {
  return all
    .filter(({ detail }) => detail && Object.keys(detail).length)
    .map(({ judge, version, status, reason, detail }) => {
      const said = Object.entries(detail);
      const reasons = said.filter(([, value]) => typeof value === "string" && value.includes(" "));
      return make(
        "details",
        { class: "judgement", open: reasons.length > 0 },
        make("summary", {}, `${judge}, version ${version} `, status !== "scored" && badge(status, "failed")),
        reason && make("p", { class: "reason" }, reason),
        texts(said.map(([name, value]) => [words(name), inWords(value)])),
      );
    });
}

/** Format a judge's detail as text: {errors: 0, words: 7} as "errors 0, words 7". */
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
  return table("Responses with their times of arrival", heads, rows, { class: "cards" });
}

function facts(turn) {
  return texts([...turn.texts, ...turn.notes.map(({ name, text }) => [name, text])]);
}
