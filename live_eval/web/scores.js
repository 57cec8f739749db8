// Make headings and definitions of scores.
import { make, unseen } from "./elements.js";

const BETTER = { true: ["↑", "higher is better"], false: ["↓", "lower is better"] };

let made = 0;

/** Make a button that shows the definition of a score or a term; it works with mouse, keyboard and touch. */
export function about({ name, heading, title, definition }) {
  made += 1;
  const id = `about-${made}`;
  return [
    make("button", { type: "button", class: "about", popovertarget: id, "aria-label": `About ${heading}` }, "?"),
    make(
      "div",
      { id, popover: "auto", class: "definition" },
      make("b", {}, title),
      make("p", {}, definition),
      name && make("code", {}, name),
    ),
  ];
}

/** Return the heading of a score: short name, direction, unit. */
export function headingOf({ heading, unit, higher_is_better: higher }) {
  const [arrow, words] = BETTER[higher] ?? ["", ""];
  return [
    heading.length > 20 ? make("span", { class: "long" }, heading) : heading,
    arrow && [make("span", { "aria-hidden": "true" }, ` ${arrow}`), unseen(`, ${words}`)],
    unit && make("small", {}, ` ${unit}`),
  ];
}
