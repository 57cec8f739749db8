// List blind listening tests, and create new ones.
import { path, post, read } from "./api.js";
import { choice, figure, fill, make, problem, table } from "./web/elements.js";
import { counted, when } from "./web/format.js";

export const KINDS = {
  ab: "A/B: which reply is better",
  abx: "ABX: which reply is X",
  rating: "Ratings from 1 to 5",
  mushra: "MUSHRA: ratings from 0 to 100 against the reference reply",
};
const REFERENCES = [
  ["user", "the user's speech"],
  ["reply", "the user's speech and the reference reply"],
  ["none", "nothing"],
];

export async function show(place, { parts, signal }) {
  if (parts.length) {
    const { show: showTest } = await import(
      parts[1] === "results" ? "./listen_results.js" : "./listen_trial.js"
    );
    return showTest(place, { test: parts[0], signal });
  }
  const isOwner = !("listener" in document.body.dataset);
  const [{ tests, scales }, folders] = await Promise.all([
    read("/api/listen", { signal }),
    isOwner ? read("/api/runs", { signal }) : [],
  ]);
  const runs = folders.filter((folder) => folder.kind === "run" && !folder.problem && folder.turns);
  fill(
    place,
    make("h1", {}, "Listen"),
    tests.length ? list(tests, isOwner) : make("p", { class: "note" }, "No listening tests yet."),
    isOwner ? form(runs, scales) : null,
  );
  return "Listen";
}

function list(tests, isOwner) {
  const rows = tests.map((test) =>
    make(
      "tr",
      {},
      make(
        "th",
        { scope: "row" },
        test.problem ? test.name : make("a", { href: `#/listen/${test.id}` }, test.name),
      ),
      make("td", {}, test.problem ?? KINDS[test.kind]),
      make("td", {}, when(test.created)),
      figure(test.problem ? "" : test.cases),
      make(
        "td",
        { class: "conditions" },
        (test.listeners ?? []).map(({ name, votes }) => `${name} ${votes} of ${test.trials}`).join(", "),
      ),
      make(
        "td",
        {},
        test.problem || !isOwner
          ? ""
          : make(
              "a",
              { href: `#/listen/${test.id}/results`, "aria-label": `Results of ${test.name}` },
              "Results",
            ),
      ),
    ),
  );
  return table(
    "Listening tests",
    ["test", "question", "created", { label: "cases", figure: true }, "votes", "results"],
    rows,
    { class: "cards runs" },
  );
}

function form(runs, scales) {
  const wanted = { kind: "ab", runs: [runs[0]?.id, runs[1]?.id], reference: "user" };
  const options = runs.map((run) => [run.id, run.name]);
  const boxes = scales.map(({ score, title }) =>
    make(
      "label",
      {},
      make("input", { type: "checkbox", name: "scale", value: score, checked: true }),
      ` ${title}`,
    ),
  );
  const rated = make("fieldset", { class: "scales", hidden: true }, make("legend", {}, "Scales"), boxes);
  const second = make("span", { class: "selects" });
  const limit = make("input", {
    type: "number",
    name: "limit",
    min: 1,
    max: 1000,
    value: 20,
    required: true,
  });
  const failure = make("div", {});
  const hears = (reference) => (wanted.reference = reference);
  const context = choice("Listeners also hear", "reference", REFERENCES, wanted.reference, hears);
  const more = make(
    "fieldset",
    { class: "scales", hidden: true },
    make("legend", {}, "More runs in the same trials"),
    runs.map(({ id, name }) =>
      make("label", {}, make("input", { type: "checkbox", name: "more", value: id }), ` ${name}`),
    ),
  );
  const draw = () => {
    const alone = wanted.kind === "rating" || wanted.kind === "mushra";
    rated.hidden = wanted.kind !== "rating";
    const others = alone ? [["", "none"], ...options] : options;
    if (!alone && !wanted.runs[1]) wanted.runs[1] = runs[1]?.id;
    more.hidden = wanted.kind !== "mushra";
    context.hidden = wanted.kind === "mushra"; // MUSHRA always includes the user's speech and the reference reply
    fill(
      second,
      choice("Other run", "second", others, wanted.runs[1], (id) => (wanted.runs[1] = id)),
    );
  };
  const submit = async (event) => {
    event.preventDefault();
    const chosen = [...rated.querySelectorAll("input:checked")].map((box) => box.value);
    try {
      const mushra = wanted.kind === "mushra";
      const added = mushra ? [...more.querySelectorAll("input:checked")].map((box) => box.value) : [];
      const made = await post("/api/listen", {
        ...wanted,
        reference: mushra ? "reply" : wanted.reference,
        runs: [...new Set([...wanted.runs.filter(Boolean), ...added])],
        limit: limit.valueAsNumber,
        scales: wanted.kind === "rating" ? chosen : [],
        seed: Math.floor(Math.random() * 2 ** 31),
      });
      location.hash = path("listen", made.id);
    } catch (error) {
      fill(failure, problem(error));
    }
  };
  draw();
  if (!runs.length) return make("p", { class: "note" }, "A listening test needs a run with spoken replies.");
  return make(
    "form",
    { class: "new-test", submit },
    make("h2", {}, "New test"),
    make(
      "p",
      { class: "note" },
      `${counted(runs.length, "run")} available. A test uses the cases that all its runs have.`,
    ),
    make(
      "div",
      { class: "filters" },
      choice("Question", "kind", Object.entries(KINDS), wanted.kind, (kind) => {
        wanted.kind = kind;
        draw();
      }),
      choice("Run", "first", options, wanted.runs[0], (id) => (wanted.runs[0] = id)),
      second,
      make("label", {}, "Maximum number of cases", limit),
      context,
    ),
    rated,
    more,
    failure,
    make("button", { type: "submit", class: "primary" }, "Create the test"),
  );
}
