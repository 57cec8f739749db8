// Show the view that the fragment of the address names; its module is loaded on demand.
//
// A view exports `show(place, { parts, query, signal })`, which fills the element `place` and returns the title of
// the page. `parts` is the rest of the fragment's path, `query` its parameters; `signal` is aborted when another
// view is shown, which cancels requests and closes resources. An element with `data-arrival` is scrolled to.
//
//     #/runs/6f74f40c533b0930/turns/le_101%2Ftarget?figure=voice_to_voice
import { announce, fill, make, problem } from "./web/elements.js";

const VIEWS = [
  { name: "runs", title: "Runs", load: () => import("./runs.js") },
  { name: "start", title: "New run", load: () => import("./start.js") },
  { name: "talk", title: "Talk", load: () => import("./talk.js") },
  { name: "stage", title: "Stage", load: () => import("./stage.js") },
  { name: "perform", title: "Perform", load: () => import("./perform.js") },
  { name: "listen", title: "Listen", load: () => import("./listen.js") },
  { name: "latency", title: "Latency", load: () => import("./pages.js") },
  { name: "duplex", title: "Duplex", load: () => import("./pages.js") },
  { name: "leaderboard", title: "Leaderboard", load: () => import("./pages.js") },
  { name: "compare", load: () => import("./compare.js") },
  { name: "report", load: () => import("./pages.js") },
];

const main = document.getElementById("main");
const navigation = document.querySelector("nav");
const forListener = "listener" in document.body.dataset; // the server refuses all other pages to listeners
const views = forListener ? VIEWS.filter(({ name }) => name === "listen") : VIEWS;
if (forListener) document.querySelector(".brand").href = "#/listen";
for (const { name, title } of views) {
  if (title) navigation.append(make("a", { href: `#/${name}`, "data-view": name }, title));
}

let leaving = new AbortController();

for (const link of document.querySelectorAll(".skip"))
  link.addEventListener("click", (event) => {
    event.preventDefault(); // a normal link would change the fragment, which names the view
    (link.dataset.to && main.querySelector(link.dataset.to) || main).focus();
  });

async function show() {
  const [path, parameters = ""] = location.hash.slice(1).split("?", 2);
  const [name = views[0].name, ...parts] = path.split("/").filter(Boolean).map(decoded);
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const view = views.find((each) => each.name === name);
  for (const link of navigation.querySelectorAll("[data-view]")) {
    if (link.dataset.view === name) {
      link.setAttribute("aria-current", "page");
      navigation.scrollLeft = link.offsetLeft + link.offsetWidth / 2 - navigation.clientWidth / 2; // without moving the focus
    } else link.removeAttribute("aria-current");
  }
  const place = make(
    "div",
    { class: "view", "aria-busy": "true" },
    make("p", { class: "note" }, "Loading …"),
  );
  fill(main, place);
  let title = "Not found";
  try {
    if (!view) throw new Error(`The studio has no page ${location.hash}.`);
    const { show: fillView } = await view.load();
    if (signal.aborted) return;
    title = await fillView(place, { name, parts, query: new URLSearchParams(parameters), signal });
  } catch (error) {
    if (signal.aborted) return;
    if (!error.kind && view) console.error(error);
    title = view?.title ?? title;
    fill(place, make("h1", {}, title), problem(error));
  }
  if (signal.aborted) return;
  place.removeAttribute("aria-busy");
  document.title = `${title} · live-eval studio`;
}

/** Scroll to the part of the view named in the address; return whether it exists. */
function arrive() {
  const part = main.querySelector("[data-arrival]");
  part?.scrollIntoView();
  return Boolean(part);
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

window.addEventListener("hashchange", async () => {
  await show();
  if (!arrive()) window.scrollTo(0, 0);
  if (!main.contains(document.activeElement)) main.focus({ preventScroll: true }); // unless the user is already typing
  announce(document.title);
});
show().then(arrive);
