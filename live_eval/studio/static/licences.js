// Show the licences of the runs' recordings and texts.
import { make } from "./web/elements.js";

/** Make a paragraph for each different licence note; the notes of other data are empty. */
export function licenceNotes(notes) {
  return [...new Set(notes)].filter(Boolean).map((note) => make("p", { class: "note" }, `${note}.`));
}
