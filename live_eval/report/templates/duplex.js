// Show the table of a campaign's trials, and the details of a trial.
import { values } from "./web/details.js";
import { make, texts } from "./web/elements.js";
import { milliseconds } from "./web/format.js";
import { listRows } from "./web/rows.js";
import { levelsOf, recording } from "./web/sound.js";

listRows(document.getElementById("trial-table"), { noun: "trials", named: "trial", details: trialDetails });

function trialDetails(_, trial, signal) {
  const durations = trial.durations.map(([name, ms]) => ({ name, value: milliseconds(ms, 1) }));
  const turns = trial.turns.map(([id, href]) => [make("a", { href }, id), " "]);
  return [
    trial.reason && make("p", { class: trial.verdict === "failed" ? "failure" : "reason" }, trial.reason),
    trial.envelope ? sound(trial, signal) : make("p", { class: "reason" }, "No audio was recorded."),
    texts(trial.texts),
    make(
      "div",
      { class: "halves" },
      durations.length > 0 && values("Durations", ["duration", "value"], durations),
      texts([...trial.facts, ["turns in the run's report", turns.length > 0 && turns]]),
    ),
  ];
}

function sound(trial, signal) {
  const { seconds: length, shades, zoom, said: described } = trial;
  const marks = trial.marks.map(([kind, title, at]) => ({ kind, title, at_s: at }));
  const sounds = trial.sounds.map(([title, url]) => ({ title, url }));
  const load = async () => levelsOf(trial.envelope);
  const view = recording({ length, marks, shades, zoom, described, load }, sounds, signal);
  view.refine();
  const silence = "This trial has no audio files.";
  return [view.element, !sounds.length && make("p", { class: "note" }, silence)];
}
