// Make elements. Text from endpoints and data sets is inserted as text, never as markup.

/** The query for screens on which lists are cards, as in the kit's styles. */
export const NARROW = matchMedia("(max-width: 40rem)");

/**
 * Make an element.
 *
 * @param {string} tag
 * @param {object} [attributes] A function is a listener for the event with that name ("click"); true is an
 *     attribute without a value; null, undefined and false are omitted.
 * @param {...(Node|string|number|null|undefined|false|Array)} children Texts become text nodes.
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...present(children));
  return element;
}

function present(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

/** Replace the contents of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
}

/** Make text that is only for screen readers. */
export function unseen(text) {
  return make("span", { class: "unseen" }, text);
}

/** Make a button. */
export function button(label, click, attributes = {}) {
  return make("button", { type: "button", click, ...attributes }, label);
}

/** Make a small label with a border; the kinds are failed, flagged and warned. */
export function badge(text, kind = "") {
  return make("span", { class: `badge ${kind}` }, text);
}

/**
 * Make a table in a horizontally scrolling frame.
 *
 * @param {string} caption
 * @param {Array<string|{label: string, figure: boolean, sort: string, title: string}>} heads `sort` is the sort
 *     key of a `Listing`.
 * @param {HTMLTableRowElement[]} rows
 * @param {object} [attributes] With the class `cards`, rows are displayed as cards on narrow screens.
 */
export function table(caption, heads, rows, attributes = {}) {
  const cells = heads.map((head) => {
    const { label, figure, sort, title } = typeof head === "string" ? { label: head } : head;
    return make("th", { scope: "col", class: figure && "figure", "data-sort": sort, title }, label);
  });
  const made = make(
    "table",
    attributes,
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, cells)),
    make("tbody", {}, rows),
  );
  if (made.classList.contains("cards")) labelCells(made);
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, made);
}

/** Return the text of a heading, without its definition. */
export function headText(head) {
  const shown = head.cloneNode(true);
  for (const hidden of shown.querySelectorAll(".about, .definition, .unseen")) hidden.remove();
  for (const more of shown.querySelectorAll("small")) more.prepend(" ");
  return shown.textContent.replace(/\s+/g, " ").trim();
}

/** Copy the text of the headings to each cell, where narrow screens display it (class `cards`). */
export function labelCells(table) {
  const names = [...table.tHead.rows[0].cells].map(headText);
  for (const { cells } of table.tBodies[0].rows)
    if (cells.length === names.length) names.forEach((name, place) => { cells[place].dataset.label = name; });
}

/** Make a row whose first cell is a heading. */
export function row(name, ...cells) {
  return make(
    "tr",
    {},
    make("th", { scope: "row" }, name),
    cells.map((cell) => (cell?.tagName === "TD" ? cell : make("td", {}, cell))),
  );
}

/** Make a cell with a number. */
export function figure(...children) {
  return make("td", { class: "figure" }, children);
}

/** Make a list of names and texts, omitting entries without text. */
export function texts(entries) {
  const shown = entries.filter(([, text]) => text);
  if (!shown.length) return null;
  return make(
    "dl",
    { class: "texts" },
    shown.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))),
  );
}

/** Make a search field. */
export function search(name, value, label = "Search", attributes = {}) {
  return make("label", {}, label, make("input", { type: "search", name, value, ...attributes }));
}

/** Make a select element with a label. Each option is [value, text], or a text that serves as both. */
export function choice(label, name, options, value, change = null) {
  const select = make("select", { name, change: change && ((event) => change(event.target.value)) }, optionsOf(options, value));
  return make("label", {}, label, select);
}

/** Make the options of a select element; see `choice`. */
export function optionsOf(options, value) {
  const all = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  return all.map(([key, text]) => make("option", { value: key, selected: key === value }, text));
}

/** Make a row of buttons, one of which is pressed. Each option is [value, text]. */
export function switcher(label, options, value, change) {
  const buttons = options.map(([key, text]) =>
    button(
      text,
      () => {
        for (const [index, [other]] of options.entries())
          buttons[index].setAttribute("aria-pressed", String(other === key));
        change(key);
      },
      { "aria-pressed": String(key === value) },
    ),
  );
  return make("span", { class: "choice", role: "group", "aria-label": label }, buttons);
}

/** Show an error instead of the content. */
export function problem(error) {
  return make("p", { class: "failure", role: "alert" }, error.message);
}

/** Announce a text to screen readers without moving the focus. */
export function announce(text) {
  const made = () =>
    document.body.appendChild(make("p", { id: "announcer", class: "unseen", role: "status" }));
  (document.getElementById("announcer") ?? made()).textContent = text;
}
