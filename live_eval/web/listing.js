// Show a table that is searched, filtered, sorted and paged, by the server or in the page.
import { NARROW, announce, button, fill, headText, make, optionsOf } from "./elements.js";
import { answerAnywhere, keyHelp } from "./keys.js";

export const PAGE = NARROW.matches ? 25 : 100;
const WAIT_MS = 150;
const KEYS = [
  ["J K", "next row, previous row"],
  ["Enter", "open it"],
  ["/", "search"],
];

/** Make the form of a listing, whose field names are query parameters. */
export function filters(label, ...fields) {
  return make("form", { class: "filters", role: "search", "aria-label": label }, fields, make("output", {}));
}

/**
 * A table whose rows are loaded on request.
 *
 * Column headings with `data-sort` sort the table, numbers first in descending order; narrow screens, which hide the
 * headings, have a select element instead. A focused element with `data-key` keeps the focus when the table is redrawn.
 */
export class Listing {
  /**
   * @param {object} parts
   * @param {HTMLFormElement} parts.form Form whose fields are query parameters; contains an output.
   * @param {HTMLElement} parts.frame Container for the table.
   * @param {HTMLElement} parts.pages Container for the page buttons.
   * @param {string} parts.noun Plural noun for rows, such as "turns".
   * @param {function(object): Promise<object>} load Called with the query: fields, sort, descending, offset and
   *     limit (Infinity for all). Returns {total, matching, offset} and the data for `show`.
   * @param {function(object)} show Function that draws the rows of a response.
   * @param {object} [options]
   * @param {string} [options.first] Default sort key.
   * @param {object} [options.asked] Initial query.
   * @param {number} [options.size] Rows per page.
   * @param {boolean} [options.all] Whether to offer all rows on one page.
   * @param {function(object)} [options.changed] Called with each query by the user.
   * @param {AbortSignal} [options.signal] With it, J and K move the focus to the next and previous row until it is
   *     aborted, / moves it to the search field, and Enter there to the first row.
   */
  constructor({ form, frame, pages, noun }, load, show, options = {}) {
    Object.assign(this, { form, frame, pages, noun, load, show });
    Object.assign(this, { first: "", asked: {}, all: false, size: PAGE, changed() {} }, options);
    this.newest = 0;
    frame.dataset.list = "";
    this.order = make("select", { change: () => this.ask({ ...JSON.parse(this.order.value), offset: "" }) });
    form.querySelector("output").before(make("label", { class: "order" }, "Sort by", this.order));
    const ask = () => this.ask({ ...fieldsOf(form), offset: "" });
    form.addEventListener("input", (event) => {
      if (event.target === this.order) return;
      clearTimeout(this.timer);
      if (event.target.type === "search") this.timer = setTimeout(ask, WAIT_MS);
      else ask();
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.signal) this.walk(1);
    });
    if (!this.signal) return;
    const keys = { j: () => this.walk(1), k: () => this.walk(-1), "/": () => form.querySelector("[type=search]").focus() };
    answerAnywhere(keys, this.signal);
    form.append(keyHelp(KEYS));
  }

  /** Move the focus to the next (1) or previous (-1) row. */
  walk(step) {
    const links = [...this.frame.querySelectorAll("tbody tr")].map((row) => row.querySelector("a, button")).filter(Boolean);
    const place = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
    const next = links[place < 0 ? 0 : place + step];
    if (next) next.focus();
    else announce(step > 0 ? "This is the last row." : "This is the first row.");
  }

  /** Change the query, and request its rows. */
  async ask(change) {
    Object.assign(this.asked, change);
    this.changed(this.asked);
    try {
      await this.refresh();
    } catch (error) {
      if (error.name !== "AbortError")
        fill(this.frame, make("p", { class: "failure", role: "alert" }, error.message));
    }
    announce(this.form.querySelector("output").value);
  }

  /** Request the same rows again. */
  async refresh() {
    this.newest += 1;
    const number = this.newest;
    const answer = await this.load({ limit: this.size, ...this.asked });
    if (number === this.newest) this.draw(answer); // responses may arrive out of order
  }

  draw(answer) {
    const { total, matching, offset } = answer;
    const focused = this.frame.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const count = (value) => value.toLocaleString("en");
    this.form.querySelector("output").value = `${count(matching)} of ${count(total)} ${this.noun}`;
    this.show(answer);
    const heads = [...this.frame.querySelectorAll("th[data-sort]")];
    this.drawOrder(heads);
    for (const head of heads) this.drawHead(head);
    if (focused)
      this.frame.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    this.drawPages(matching, offset);
  }

  /** Offer each sort key in both directions. */
  drawOrder(heads) {
    const known = this.asked.sort || this.first;
    const options = heads.flatMap((head) =>
      (head.classList.contains("figure") ? ["1", ""] : ["", "1"]).map((descending) => [
        JSON.stringify({ sort: head.dataset.sort, descending }),
        `${headText(head)} ${descending ? "▼" : "▲"}`,
      ]),
    );
    if (!known) options.unshift([JSON.stringify({ sort: "", descending: "" }), "as listed"]);
    this.order.closest("label").hidden = !heads.length;
    const value = known && JSON.stringify({ sort: known, descending: this.asked.descending ? "1" : "" });
    fill(this.order, optionsOf(options, value));
  }

  drawHead(head) {
    const { sort: key } = head.dataset;
    if (!head.querySelector("[data-key]")) {
      const label = [...head.childNodes].filter((node) => !node.matches?.(".about, .definition"));
      head.prepend(button(label, () => this.sort(head, key), { "data-key": `sort ${key}` }));
    }
    if ((this.asked.sort || this.first) !== key) head.removeAttribute("aria-sort");
    else head.setAttribute("aria-sort", this.asked.descending ? "descending" : "ascending");
  }

  sort(head, key) {
    const again = (this.asked.sort || this.first) === key;
    const descending = again ? !this.asked.descending : head.classList.contains("figure");
    this.ask({ sort: key, descending: descending ? "1" : "", offset: "" });
  }

  drawPages(matching, offset) {
    const { limit = this.size } = this.asked;
    const last = Math.min(offset + limit, matching);
    const go = (change) => async () => {
      await this.ask(change);
      this.form.scrollIntoView();
      this.frame.querySelector("tbody :is(a, button)")?.focus({ preventScroll: true });
    };
    const to = (place) => go({ offset: place > 0 ? String(place) : "" });
    this.pages.hidden = matching <= this.size && offset === 0;
    fill(
      this.pages,
      button("Previous", to(offset - this.size), { disabled: offset === 0 }),
      make("span", {}, ` ${this.noun} ${matching ? offset + 1 : 0} to ${last} `),
      button("Next", to(offset + this.size), { disabled: last >= matching }),
      this.all && button("Show all", go({ limit: Infinity, offset: "" }), { disabled: limit > this.size }),
    );
  }
}

/** Return the values of a form's fields by name. */
export function fieldsOf(form) {
  return Object.fromEntries(new FormData(form));
}

/** Return the rows whose text contains every word of a search. */
export function searched(rows, search, textOf) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => words.every((word) => textOf(row).includes(word)));
}

/** Return one page of the matching rows. */
export function pageOf(found, all, { offset, limit }) {
  const first = Number(offset || 0);
  const rows = found.slice(first, first + limit);
  return { total: all.length, matching: found.length, offset: first, rows };
}
