// Add definitions of terms to headings.
import { read } from "./api.js";
import { about } from "./web/scores.js";

let loading = null;

/**
 * Return a function that makes a button for a term's definition; it returns null for a term without a definition.
 *
 * The function's arguments are the term, with or without hyphens, and the heading next to the button.
 */
export async function glossary() {
  loading ??= read("/api/glossary").then(
    (terms) => new Map(Object.entries(terms).map(([name, text]) => [plain(name), text])),
  );
  const terms = await loading.catch((error) => {
    loading = null;
    throw error;
  });
  return (name, heading = name) => {
    const definition = terms.get(plain(name));
    return definition ? about({ heading, title: name, definition }) : null;
  };
}

function plain(name) {
  return name.replaceAll("-", " ").replaceAll(",", "");
}
