// Show pages of live-eval's other commands, each in a frame.
import { path, read, withQuery } from "./api.js";
import { fill, make, problem, row, table } from "./web/elements.js";
import { NONE, when } from "./web/format.js";

const PAGES = {
  latency: {
    title: "Latency",
    kind: "campaign",
    file: "latency.html",
    none: "No latency campaigns yet. Create one with live-eval latency.",
  },
  duplex: {
    title: "Duplex",
    kind: "duplex",
    file: "duplex.html",
    none: "No duplex campaigns yet. Create one with live-eval duplex.",
  },
  leaderboard: { title: "Leaderboard", file: "leaderboard.html", none: "No runs to rank yet." },
  report: { title: "Report", file: "report.html", none: "No runs to report yet." },
};

export async function show(place, { name, parts, query, signal }) {
  const page = PAGES[name];
  const runs = query.getAll("run");
  if (page.kind && parts.length) showFrame(place, page, path("pages", parts[0], page.file), {}, signal);
  else if (!page.kind && runs.length) showFrame(place, page, path("pages", page.file), { run: runs }, signal);
  else await showChoice(place, name, page, signal);
  return page.title;
}

/** Show a page, or the reason why there is none. */
function showFrame(place, { title }, address, query, signal) {
  const state = make("span", { role: "status" }, "Rendering the page …");
  const loaded = ({ target }) => {
    const failed = target.contentDocument?.querySelector("[data-problem]");
    if (failed) fill(place, make("h1", {}, title), problem({ message: failed.textContent }));
    target.dataset.loaded = "";
    fill(state);
  };
  // For printing, give the frame the height of its page, because paper does not scroll.
  const frame = make("iframe", { class: "page", src: withQuery(address, { ...query, framed: true }), title: `${title} page`, load: loaded });
  const grow = () => {
    frame.style.height = `${frame.contentDocument?.documentElement.scrollHeight ?? 0}px`;
  };
  addEventListener("beforeprint", grow, { signal });
  addEventListener("afterprint", () => frame.style.removeProperty("height"), { signal });
  fill(
    place,
    make("h1", {}, title),
    make(
      "p",
      { class: "note" },
      make("a", { href: withQuery(address, query), target: "_blank" }, "Open the page in a new tab"),
      " ",
      state,
    ),
    frame,
  );
}

async function showChoice(place, name, page, signal) {
  const all = await read("/api/runs", { signal });
  const wanted = all.filter((run) => run.kind === (page.kind ?? "run") && !run.problem);
  const link = (run) => (page.kind ? `#/${name}/${run.id}` : withQuery(`#/${name}`, { run: run.id }));
  fill(place, make("h1", {}, page.title));
  if (!wanted.length) place.append(make("p", { class: "note" }, page.none));
  else if (page.kind) {
    place.append(
      table(
        `${page.title} campaigns`,
        ["campaign", "endpoint", "began"],
        wanted.map((run) =>
          row(make("a", { href: link(run) }, run.name), run.endpoint ?? NONE, when(run.created)),
        ),
      ),
    );
  } else place.append(chooser(name, wanted));
}

function chooser(name, runs) {
  const boxes = runs.map((run) =>
    make(
      "label",
      {},
      make("input", { type: "checkbox", name: "run", value: run.id }),
      ` ${run.name}`,
      make("small", {}, ` ${run.endpoint ?? ""}`),
    ),
  );
  const submit = (event) => {
    event.preventDefault();
    const chosen = new URLSearchParams(new FormData(event.target)).toString();
    if (chosen) location.hash = `#/${name}?${chosen}`;
  };
  return make(
    "form",
    { class: "chooser", submit },
    make("fieldset", {}, make("legend", {}, "Runs"), boxes),
    make("button", { type: "submit", class: "primary" }, "Show"),
  );
}
