// Show the table of a report's turns, and the details of a turn.
import { latencies, remark, scores } from "./web/details.js";
import { bytes } from "./web/drawing.js";
import { NARROW, make, row, table, texts } from "./web/elements.js";
import { heatMap } from "./web/heat_map.js";
import { listRows } from "./web/rows.js";
import { handover, levelsOf, recording } from "./web/sound.js";

const KEYS = [["J K", "next turn, previous turn"]];
const columns = JSON.parse(document.getElementById("score-columns").textContent);
// The address of each run in a studio that streams the audio; null if the page contains the audio.
const streams = JSON.parse(document.getElementById("streams")?.textContent ?? "null");

for (const place of document.querySelectorAll(".cue-maps")) {
  const { maps, run, label } = JSON.parse(place.querySelector("script").textContent);
  const turns = (row) => `#${new URLSearchParams({ ...row, ...(label && { run }) })}`;
  place.append(...maps.flatMap((map) => heatMap(map, { of: label, turns })).filter(Boolean));
}

for (const each of document.querySelectorAll("#paper details")) each.open = !NARROW.matches;

listRows(document.getElementById("turn-table"), { noun: "turns", named: "turn", details: turnDetails });

function turnDetails({ row: { id, dataset } }, turn, signal) {
  const [ms, flagged] = turn.lag;
  const times = turn.latencies.map(([title, value, reason]) => ({ title, ms: value, reason }));
  const judged = turn.scores.flatMap((score, place) => {
    if (!score) return []; // not applicable to the turn's task
    return [{ ...columns[dataset.run][place], value: score[0], reason: score[1] ?? "" }];
  });
  return [
    turn.failure && remark(...turn.failure),
    turn.warnings.map(([kind, message]) => remark(kind, message, "warning")),
    turn.envelope && sound(turn, id, dataset.run, signal),
    texts(turn.texts),
    make(
      "div",
      { class: "halves" },
      make("div", {}, latencies(times, { ms, flagged }), texts(turn.facts)),
      scores(judged),
    ),
    turn.responses.length > 0 && responses(turn.responses),
  ];
}

function responses(all) {
  const rows = all.map(([status, reason, text, measured]) =>
    row(measured ? `${status} (measured)` : status, reason || "–", text),
  );
  return table("Responses", ["status", "reason", "text"], rows);
}

function sound(turn, id, run, signal) {
  const clip = document.getElementById(`sound-${id}`);
  const url = clip ? embedded(clip, signal) : turn.streamed && streamed(run, turn);
  const marks = turn.marks.map(([kind, title, at]) => ({ kind, title, at_s: at }));
  const load = async () => levelsOf(clip?.dataset.step ? clip.dataset : turn.envelope);
  const sounds = url ? [{ title: "both", url }] : [];
  const view = recording({ length: turn.seconds, marks, load, keys: KEYS, ...handover(marks) }, sounds, signal);
  view.refine();
  const silence = "The audio of this turn is not in the page; its files are listed below.";
  return [view.element, !url && make("p", { class: "note" }, silence)];
}

/** Return the address of a turn's audio in the studio. */
function streamed(run, turn) {
  return `${streams[run]}/turns/${encodeURIComponent(turn.id)}/audio/both`;
}

/** Return the address of a clip in the page, valid until the signal is aborted. */
function embedded(clip, signal) {
  const sound = new Blob([bytes(clip.textContent.trim())], { type: clip.dataset.mime });
  const url = URL.createObjectURL(sound);
  signal.addEventListener("abort", () => URL.revokeObjectURL(url));
  return url;
}
