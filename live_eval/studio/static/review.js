// Edit the labels and the note of a turn.
import { path, post, read } from "./api.js";
import { announce, button, fill, make } from "./web/elements.js";
import { answerAnywhere } from "./web/keys.js";

const TYPING_MS = 800;

/** The keys of this section, for the page's list of keys. */
export const REVIEW_KEYS = [["T N", "write a label, a note; Escape leaves the field"]];

/**
 * Show the labels and the note of a turn, and store changes.
 *
 * @param {string[]} turn The parts of the turn's address.
 * @param {AbortSignal} signal
 * @returns {HTMLElement}
 */
export function review(turn, signal) {
  const address = path(...turn, "review");
  const labels = make("span", { class: "choice-list", role: "group", "aria-label": "Labels" });
  const adding = make("input", { name: "label", maxlength: "40", placeholder: "New label, then Enter" });
  const note = make("textarea", { name: "note", rows: "2", maxlength: "4000", placeholder: " " });
  const state = make("span", { class: "note", role: "status" });
  let now = { labels: [], note: "", known: [] };

  const draw = () => {
    const toggle = (label) => () => save(now.labels.includes(label) ? { remove: [label] } : { add: [label] });
    fill(
      labels,
      [...new Set([...now.labels, ...now.known])].map((label) =>
        button(label, toggle(label), { "aria-pressed": String(now.labels.includes(label)) }),
      ),
    );
  };
  const save = async (change) => {
    const before = now;
    const { add = [], remove = [] } = change;
    now = { ...now, labels: [...now.labels, ...add].filter((label) => !remove.includes(label)) };
    draw();
    fill(state, "Saving …");
    try {
      now = await post(address, change);
      fill(state, "Saved.");
    } catch (error) {
      now = before;
      fill(state, `Not saved: ${error.message}`);
      announce(`Not saved: ${error.message}`);
    }
    draw();
  };
  const add = (event) => {
    event.preventDefault();
    const label = adding.value.trim();
    adding.value = "";
    if (label && !now.labels.includes(label)) save({ add: [label] });
  };
  let typing;
  const saveNote = () => {
    clearTimeout(typing);
    if (note.value.trim() !== now.note) save({ note: note.value });
  };
  const leave = (event) => event.key === "Escape" && event.target.blur();
  note.addEventListener("change", saveNote);
  note.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(saveNote, TYPING_MS); // closing the page fires no change event
  });
  note.addEventListener("keydown", leave);
  adding.addEventListener("keydown", leave);
  answerAnywhere({ t: () => adding.focus(), n: () => note.focus() }, signal);
  read(address, { signal }).then(
    (stored) => {
      now = stored;
      if (!note.value) note.value = stored.note; // unless a reviewer is already typing
      draw();
    },
    (error) => {
      if (signal.aborted) return;
      for (const field of [adding, note]) field.disabled = true;
      fill(state, error.message);
    },
  );
  return make(
    "form",
    { class: "review", submit: add },
    make("label", {}, "Labels", adding),
    labels,
    make("label", { class: "note-field" }, "Note", note),
    state,
  );
}
