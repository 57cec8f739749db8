// Scenes on a blank page, for the tests of the front-end kit.
import * as details from "/details.js";
import * as elements from "/elements.js";
import { Listing, filters } from "/listing.js";
import { listRows } from "/rows.js";
import { handover, recording } from "/sound.js";

const { figure, make, row, table } = elements;

/** Make one of every element of a text; returns whether each shows it as text. */
export function texts(text) {
  const some = { name: text, heading: text, title: text, definition: text, note: text, value: text, reason: text };
  const heads = [text, { label: text, title: text, sort: text }];
  const made = [
    make("p", { title: text }, text),
    elements.badge(text),
    elements.button(text, () => {}),
    elements.unseen(text),
    table(text, heads, [row(text, text, figure(text))]),
    elements.texts([[text, text]]),
    elements.choice(text, "x", [[text, text]], text),
    elements.search("x", text),
    elements.switcher(text, [["x", text]], "x", () => {}),
    elements.problem({ message: text }),
    details.remark(text, text),
    details.values(text, ["a", "b", "c"], [some]),
    details.latencies([{ ...some, ms: 1 }], { ms: 0, flagged: true }),
    details.scores([{ ...some, value: 1, unit: text, higher_is_better: true }]),
  ];
  document.body.append(...made);
  elements.announce(text);
  return made.every((one) => one.textContent.includes(text) || one.querySelector("input").value === text);
}

/** List rows as a page has them: a name, a figure that every seventh lacks, and details. */
export function rows(count) {
  const cues = ["", "sigh", "laugh"].map((name) => make("option", { value: name }, name));
  const form = make(
    "form",
    { class: "filters", hidden: true },
    make("input", { type: "search", name: "search" }),
    make("select", { name: "cue" }, cues),
    make("output"),
  );
  const made = Array.from({ length: count }, (_, index) => {
    const name = `turn ${index}`;
    const json = make("script", { type: "application/json" }, JSON.stringify({ index }));
    const one = row([make("span", { class: "name" }, name), json], figure(index % 7 ? index : "–"));
    one.id = `t${index}`;
    one.dataset.status = "captured";
    one.dataset.cue = index % 2 ? "sigh" : "laugh";
    one.dataset.search = `${name} words`;
    one.dataset.values = index % 7 ? String(index) : "";
    return one;
  });
  const heads = [
    { label: "turn", sort: "order" },
    { label: "ms", sort: "0", figure: true },
  ];
  const listed = table("Turns", heads, made);
  document.body.append(form, listed, make("p", { class: "pages" }));
  window.left = [];
  listRows(listed.querySelector("table"), {
    noun: "turns",
    named: "turn",
    details: (one, { index }, signal) => {
      signal.addEventListener("abort", () => window.left.push(index));
      return make("p", { class: "opened" }, `details of ${one.name}`);
    },
  });
}

/** Answer two requests in the wrong order, then fail one; returns what is shown, and what is announced. */
export async function answers() {
  const [form, frame, pages, waiting] = [filters("Turns"), make("div"), make("p"), []];
  document.body.append(form, frame, pages);
  const load = ({ sort }) => new Promise((done, fail) => waiting.push({ sort, done, fail }));
  const show = ({ text }) => frame.replaceChildren(text);
  const listing = new Listing({ form, frame, pages, noun: "turns" }, load, show);
  const asked = [listing.ask({ sort: "slow" }), listing.ask({ sort: "quick" })];
  for (const { sort, done } of waiting.reverse()) done({ total: 2, matching: 1, offset: 0, text: sort });
  await Promise.all(asked);
  const latest = frame.textContent;
  const last = listing.ask({ sort: "x" });
  waiting.at(-1).fail(new Error("<b>no</b>"));
  await last;
  return [latest, frame.textContent, document.getElementById("announcer").textContent];
}

/** Show two seconds with a word at 0.9 s; playback stops with `leaving`. */
export async function recorded({ sounds, marks }) {
  const leaving = new AbortController();
  const load = async () => ({
    start_s: 0,
    step_s: 0.1,
    user: Array(20).fill(90),
    endpoint: Array(20).fill(200),
  });
  const drawing = { length: 2, marks, load, described: "In words.", ...handover(marks) };
  const played = sounds.map((title) => ({ title, url: silence(2) }));
  const view = recording(drawing, played, leaving.signal);
  const word = make("p", { id: "word" });
  document.body.append(view.element, word);
  view.follow(word, [[0.9, 1.4]]);
  await view.refine();
  Object.assign(window, { view, leaving });
}

/** A WAV file of silence: 16 bits at 8 kHz. */
function silence(seconds) {
  const size = 16_000 * seconds;
  const wav = new DataView(new ArrayBuffer(44 + size));
  const text = (at, letters) =>
    [...letters].forEach((one, index) => wav.setUint8(at + index, one.charCodeAt(0)));
  text(0, "RIFF");
  wav.setUint32(4, 36 + size, true);
  text(8, "WAVEfmt ");
  wav.setUint32(16, 16, true);
  wav.setUint16(20, 1, true);
  wav.setUint16(22, 1, true);
  wav.setUint32(24, 8_000, true);
  wav.setUint32(28, 16_000, true);
  wav.setUint16(32, 2, true);
  wav.setUint16(34, 16, true);
  text(36, "data");
  wav.setUint32(40, size, true);
  return URL.createObjectURL(new Blob([wav], { type: "audio/wav" }));
}

export async function heat() {
  const { heatMap } = await import("./heat_map.js");
  const score = { name: "rubric.c4", heading: "C4", title: "C4 relevance", unit: "of 5", higher_is_better: true };
  score.definition = "Whether the reply fits the cue.";
  const cell = (value, thin = false) => ({ value, n: 9, scripts: thin ? 3 : 9, thin });
  const row = (cue, ms, c4, thin) => ({
    cue,
    turns: 9,
    voice_to_voice: cell(ms, thin),
    scores: [cell(c4, thin)],
  });
  const rows = [row("sigh", 500, 3), row("shout", 600, 4), row("whisper", 400, 5, true)];
  rows.push({ ...row("a / gasp", 100, 3.5), from_last_sound: true }, row("b / gasp", 550, 3.5));
  const map = { task: "conversation", fewest_scripts: 8, scores: [score], rows };
  document.body.append(...heatMap(map, { turns: (row) => `#${new URLSearchParams(row)}` }));
}
