// A table that can be sorted, filtered and paged, and whose rows open to their details.
//
// A row has a `.name`, its figures in data-values, its badges in data-status, what a search looks through in
// data-search, and for every other filter of the form an attribute of the same name. `details(row, data)` returns
// the element of an open row; it may listen to the event "gone". `named` is the name in the page's fragment under
// which other pages link to a row; filters may stand in the fragment too.
function listing(table, { noun, named, details }) {
  const PAGE = 100;
  const body = table.tBodies[0];
  const form = document.querySelector(".filters");
  const pages = document.querySelector(".pages");
  const rows = [...body.rows].map((row, order) => ({
    row,
    order,
    name: row.querySelector(".name").textContent,
    status: row.dataset.status.split(" "),
    values: row.dataset.values.split(" ").map((text) => (text === "" ? null : Number(text))),
    panel: null,
  }));
  const filters = [...form.elements].map((element) => element.name).filter((name) => name && name !== "search");
  let matching = rows;
  let shown = PAGE;
  let sorting = { by: "order", down: false };

  function key(one) {
    const by = sorting.by;
    return typeof by === "number" ? one.values[by] : by === "order" ? one.order : one.row.dataset[by];
  }

  function compare(a, b) {
    const [one, two] = [key(a), key(b)];
    if (one === two) return a.order - b.order;
    if (one === null) return 1; // missing figures come last, in both directions
    if (two === null) return -1;
    return (one < two ? -1 : 1) * (sorting.down ? -1 : 1);
  }

  function matches(one, name, wanted) {
    return wanted === "" || (name === "status" ? one.status.includes(wanted) : one.row.dataset[name] === wanted);
  }

  function refresh() {
    const words = form.elements.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    matching = rows
      .filter(
        (one) =>
          filters.every((name) => matches(one, name, form.elements[name].value)) &&
          words.every((word) => one.row.dataset.search.includes(word)),
      )
      .sort(compare);
    draw();
  }

  function draw() {
    const visible = matching.slice(0, shown);
    const fragment = document.createDocumentFragment();
    for (const one of visible) {
      fragment.append(one.row);
      if (one.panel) fragment.append(one.panel);
    }
    // Rows that are not shown stay in memory: a table of thousands of rows is slow to lay out.
    body.replaceChildren(fragment);
    form.querySelector("output").value = `${matching.length} of ${rows.length} ${noun}`;
    pages.hidden = visible.length === matching.length;
    pages.querySelector("[name=more]").textContent = `Show ${Math.min(PAGE, matching.length - visible.length)} more`;
  }

  function toggle(one) {
    const button = one.row.querySelector("button.name");
    if (one.panel) {
      one.panel.remove();
      one.panel.dispatchEvent(new Event("gone"));
      one.panel = null;
    } else {
      const cell = make("td", { colspan: String(one.row.cells.length) });
      one.panel = make("tr", { class: "detail" }, cell);
      cell.append(details(one, JSON.parse(one.row.querySelector("script").textContent)));
      one.row.after(one.panel);
    }
    button.setAttribute("aria-expanded", String(one.panel !== null));
  }

  // What the page's fragment names: a row to open, or rows to show.
  function open() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const one = rows.find((each) => `#${each.row.id}` === location.hash || each.name === asked.get(named));
    const asks = filters.filter((name) => asked.has(name));
    if (!one && !asks.length) return;
    form.reset();
    for (const name of asks) form.elements[name].value = asked.get(name);
    sorting = { by: "order", down: false };
    shown = one ? Math.max(shown, one.order + 1) : PAGE;
    refresh();
    if (one && !one.panel) toggle(one);
    (one ? one.row : form).scrollIntoView();
  }

  for (const heading of table.tHead.rows[0].cells) {
    const button = make("button", { type: "button" }, ...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const by = /^\d+$/.test(heading.dataset.sort) ? Number(heading.dataset.sort) : heading.dataset.sort;
      sorting = { by, down: sorting.by === by ? !sorting.down : typeof by === "number" };
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
      refresh();
    });
  }
  for (const one of rows) {
    const name = one.row.querySelector(".name");
    const button = make("button", { type: "button", class: "name", "aria-expanded": "false" }, name.textContent);
    name.replaceWith(button);
    button.addEventListener("click", () => toggle(one));
  }
  form.addEventListener("input", () => { shown = PAGE; refresh(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  pages.querySelector("[name=more]").addEventListener("click", () => { shown += PAGE; draw(); });
  pages.querySelector("[name=all]").addEventListener("click", () => { shown = Infinity; draw(); });
  form.hidden = false;
  refresh();
  window.addEventListener("hashchange", open);
  open();
}
