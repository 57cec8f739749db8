// Every text on the page comes from an endpoint or a data set: it goes in as text, never as markup.
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "rect", "line"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

function round(value, digits) {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

// A small table of names, values and the reasons of missing ones; null if it is empty.
function list(title, entries) {
  if (!entries.length) return null;
  const table = make("table");
  for (const [name, value, reason] of entries) {
    const cell = make("td", {}, value === null ? "– " : `${value} `);
    if (reason) cell.append(make("span", { class: "reason" }, reason));
    table.append(make("tr", {}, make("th", { scope: "row" }, name), cell));
  }
  return make("div", {}, make("h3", {}, title), table);
}

function texts(entries) {
  const pairs = entries.map(([title, text]) => make("div", {}, make("dt", {}, title), make("dd", {}, text)));
  return make("dl", { class: "texts" }, ...pairs);
}
