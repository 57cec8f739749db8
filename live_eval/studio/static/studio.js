// Every text comes from an endpoint or a data set: it goes in as text, never as markup.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

const response = await fetch("/api/runs");
const answer = await response.json();
const main = document.getElementById("main");
if (!response.ok) {
  main.replaceChildren(make("p", { role: "alert" }, answer.error.message));
} else {
  const heads = ["run", "endpoint", "began", "turns", "failed"].map((name) => make("th", { scope: "col" }, name));
  const rows = answer.map((run) =>
    make("tr", {},
      make("th", { scope: "row" }, run.name),
      make("td", {}, run.problem ?? run.endpoint ?? run.kind),
      make("td", {}, run.created ?? "–"),
      make("td", { class: "figure" }, `${run.turns ?? "–"}`),
      make("td", { class: "figure" }, `${run.failed ?? "–"}`),
    ),
  );
  main.replaceChildren(
    rows.length
      ? make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows))
      : make("p", {}, "No runs yet."),
  );
}
