// Search, filter, sort, page and open the rows of a table in the page.
//
// A row contains a `.name`, its values in data-values, its badges in data-status, searchable text in data-search, and
// an attribute for each filter of the form. Its details are JSON in a script element.
import { announce, button, labelCells, make } from "./elements.js";
import { answerAnywhere } from "./keys.js";
import { Listing, PAGE, fieldsOf, pageOf, searched } from "./listing.js";

/**
 * Make the rows of a table searchable, and let the user open them.
 *
 * @param {HTMLTableElement} table
 * @param {object} options
 * @param {string} options.noun Plural noun for rows, such as "turns".
 * @param {string} options.named Fragment parameter for links to a row; filters are also fragment parameters.
 * @param {function(object, object, AbortSignal): Array} options.details Makes the content of an open row, given the
 *     row and its JSON; the signal is aborted when the row is closed.
 */
export function listRows(table, { noun, named, details }) {
  const body = table.tBodies[0];
  const form = document.querySelector(".filters");
  const rows = [...body.rows].map((row, order) => ({
    row,
    order,
    name: row.querySelector(".name").textContent,
    status: row.dataset.status.split(" "),
    values: row.dataset.values.split(" ").map((text) => (text === "" ? null : Number(text))),
    panel: null,
  }));

  async function load({ search = "", sort, descending, offset, limit, ...wanted }) {
    const found = searched(rows, search, ({ row }) => row.dataset.search)
      .filter(matcher(wanted))
      .sort(comparer(sort || "order", descending ? -1 : 1));
    return pageOf(found, rows, { offset, limit });
  }

  // Keep the other rows out of the document, because laying out thousands of rows is slow.
  const show = (answer) => {
    body.replaceChildren(...answer.rows.flatMap((one) => (one.panel ? [one.row, one.panel] : [one.row])));
    labelCells(table);
  };
  const parts = { form, frame: table, pages: document.querySelector(".pages"), noun };
  const listing = new Listing(parts, load, show, { first: "order", all: true });

  function toggle(one) {
    if (one.panel) {
      one.panel.remove();
      one.panel = null;
      one.leaving.abort();
    } else {
      one.leaving = new AbortController();
      const contents = details(one, JSON.parse(one.row.querySelector("script").textContent), one.leaving.signal);
      const panel = make("div", { class: "panel" }, contents);
      one.panel = make("tr", { class: "detail" }, make("td", { colspan: one.row.cells.length }, panel));
      one.row.after(one.panel);
    }
    one.row.querySelector("button.name").setAttribute("aria-expanded", String(one.panel !== null));
  }

  /** Close the last open row, and open the row after (1) or before (-1) it. */
  function walk(step) {
    const shown = [...body.rows].map((row) => rows.find((one) => one.row === row)).filter(Boolean);
    const open = shown.findLastIndex((one) => one.panel);
    const next = shown[open < 0 ? 0 : open + step];
    if (!next) return announce(step > 0 ? "This is the last row." : "This is the first row.");
    if (open >= 0) toggle(shown[open]);
    if (!next.panel) toggle(next);
    next.row.querySelector("button.name").focus({ preventScroll: true });
    return next.row.scrollIntoView();
  }

  /** Show the target of the page's fragment: open a row, or filter the rows. */
  async function open() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const one = rows.find((each) => `#${each.row.id}` === location.hash || each.name === asked.get(named));
    const filters = Object.keys(fieldsOf(form)).filter((name) => asked.has(name));
    if (!one && !filters.length) return;
    form.reset();
    for (const name of filters) form.elements[name].value = asked.get(name);
    const page = one && !listing.asked.limit ? PAGE * Math.floor(one.order / PAGE) : 0;
    await listing.ask({ ...fieldsOf(form), sort: "", descending: "", offset: page });
    if (one && !one.panel) toggle(one);
    (one ? one.row : form).scrollIntoView();
  }

  for (const one of rows) {
    const click = () => toggle(one);
    one.row
      .querySelector(".name")
      .replaceWith(button(one.name, click, { class: "name", "aria-expanded": "false" }));
  }
  form.hidden = false;
  listing.refresh();
  window.addEventListener("hashchange", open);
  answerAnywhere({ j: () => walk(1), k: () => walk(-1) }, new AbortController().signal);
  open();
}

function matcher(wanted) {
  const filters = Object.entries(wanted).filter(([, value]) => value !== "");
  return ({ row, status }) =>
    filters.every(([name, value]) =>
      name === "status" ? status.includes(value) : row.dataset[name] === value,
    );
}

function comparer(by, sign) {
  const key = (one) =>
    by === "order" ? one.order : /^\d+$/.test(by) ? one.values[Number(by)] : one.row.dataset[by];
  return (a, b) => {
    const [one, two] = [key(a), key(b)];
    if (one === two) return a.order - b.order;
    if (one === null) return 1; // missing values are last in either order
    if (two === null) return -1;
    return (one < two ? -1 : 1) * sign;
  };
}
