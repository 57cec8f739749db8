// Show the messages of a turn, loaded on demand.
import { path, read } from "./api.js";
import { button, choice, fill, make } from "./web/elements.js";
import { counted, number } from "./web/format.js";

const MORE = 200;
/** Minimum count of a frequent kind of message, such as audio deltas, and minimum length of a collapsed series. */
const OFTEN = 8;
const SERIES = 5;

/**
 * Make the list of messages.
 *
 * @param {string[]} address The parts of the turn's address.
 * @param {{total: number, rows: object[]}} first First messages.
 * @param {function(number)|null} hear Function that plays the audio around the time of a message.
 * @param {AbortSignal} signal
 */
export function eventList(address, first, hear, signal) {
  let { rows } = first;
  let shown = MORE;
  let kind = "";
  const types = make("span", {});
  const count = make("output", {});
  const list = make("ol", { class: "events" });
  const more = button("Show more", async () => {
    const before = list.children.length;
    shown += MORE;
    if (matching().length < shown && rows.length < first.total) await load();
    draw();
    list.children[before]?.querySelector("summary")?.focus();
  });

  /** Return the messages of the chosen type, or all messages with series collapsed. */
  const matching = () => (kind ? rows.filter((event) => kindOf(event) === kind) : folded(rows));

  async function load() {
    const answer = await read(path(...address, "events"), { query: { offset: rows.length }, signal });
    rows = rows.concat(answer.rows);
    drawTypes();
  }

  function drawTypes() {
    const kinds = [...new Set(rows.map(kindOf))].sort();
    fill(
      types,
      choice("Type", "type", [["", "all"], ...kinds], kind, (chosen) => {
        kind = chosen;
        shown = MORE;
        draw();
      }),
    );
  }

  function draw() {
    const found = matching();
    fill(
      list,
      found.slice(0, shown).map((event) => (Array.isArray(event) ? series(event, hear) : entry(event, hear))),
    );
    const loaded = rows.length < first.total ? `, ${rows.length} of ${first.total} loaded` : "";
    count.value = `${counted(found.flat().length, "message")}${loaded}`;
    more.hidden = shown >= found.length && rows.length >= first.total;
  }

  drawTypes();
  draw();
  return [make("div", { class: "filters" }, types, count), list, more];
}

function kindOf({ direction, type }) {
  return `${direction === "in" ? "←" : "→"} ${type ?? "(no type)"}`;
}

/** Combine each long series of messages of frequent kinds in a list. */
function folded(rows) {
  const counts = countsOf(rows);
  const parts = [];
  for (const event of rows) {
    const streamed = counts.get(kindOf(event)) >= OFTEN;
    const last = parts.at(-1);
    if (streamed && last?.streamed) last.events.push(event);
    else parts.push({ streamed, events: [event] });
  }
  return parts.flatMap(({ events }) => (events.length < SERIES ? events : [events]));
}

function countsOf(events) {
  const counts = new Map();
  for (const event of events) counts.set(kindOf(event), (counts.get(kindOf(event)) ?? 0) + 1);
  return counts;
}

/** Make a collapsed series of messages, whose entries are created when it is opened. */
function series(events, hear) {
  const inside = make("ol", { class: "events" });
  const kinds = [...countsOf(events)].map(([kind, count]) => `${count} × ${kind}`).join(", ");
  const times = `${number(events[0].at_s, 3)} to ${number(events.at(-1).at_s, 3)} s`;
  const details = make("details", {}, make("summary", {}, `${kinds}, ${times}`), inside);
  const open = () =>
    fill(
      inside,
      events.map((event) => entry(event, hear)),
    );
  details.addEventListener("toggle", open, { once: true });
  return make("li", { class: "series" }, details);
}

function entry(event, hear) {
  const at = `${number(event.at_s, 3)} s`;
  const body = make("pre", {});
  const details = make(
    "details",
    {},
    make(
      "summary",
      {},
      make(
        "span",
        {
          class: `direction ${event.direction}`,
          title: event.direction === "in" ? "from the endpoint" : "to the endpoint",
        },
        kindOf(event),
      ),
    ),
    body,
  );
  // Format a body only when it is opened, because bodies are long.
  details.addEventListener(
    "toggle",
    () => {
      body.textContent = JSON.stringify(event.body, null, 2);
    },
    { once: true },
  );
  return make(
    "li",
    {},
    hear && event.at_s >= 0
      ? button(at, () => hear(event.at_s), { class: "plays", title: "Play the audio around it" })
      : make("span", { class: "times" }, at),
    details,
  );
}
