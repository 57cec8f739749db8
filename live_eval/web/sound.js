// Show a recording of both sides with waveforms, player and marks.
import { bytes } from "./drawing.js";
import { announce, button, make } from "./elements.js";
import { seconds } from "./format.js";
import { keyHelp } from "./keys.js";
import { PLAYER_KEYS, Player } from "./player.js";
import { Waveform, classOf } from "./waveform.js";

/** Length of the context played before and after an interval. */
const AROUND_S = 0.25;
const SHORTEST_S = 0.05;
const SAVED = "Save the selection, or the whole recording, of the selected side";

/** Return the `shades` and the `zoom` of a turn: from the end of the user's speech to the first audible sample. */
export function handover(marks) {
  const moments = ["end", "audible"].map((kind) => marks.find((mark) => mark.kind === kind)?.at_s);
  if (moments.includes(undefined)) return { shades: [], zoom: null };
  const [from, to] = moments.sort((one, other) => one - other);
  return {
    shades: [[null, "gap", from, to]],
    zoom: { title: "Handover", from: from - 0.4, to: to + 0.6 },
  };
}

/** Return the levels of an envelope embedded in a page, for a `Waveform`. */
export function levelsOf({ step, user, endpoint }) {
  return { start_s: 0, step_s: Number(step), user: bytes(user), endpoint: bytes(endpoint) };
}

/**
 * Show a recording.
 *
 * @param {object} drawing See `Waveform`; also `zoom`: {title, from, to}, an interval to zoom to, or null; `keys`:
 * [key, meaning] of further keys of the page; `clip`: a function that returns the address of a side's WAV file,
 * given its address and an interval or null; and `video`: a button that saves a video.
 * @param {Array<{title: string, url: string}>} sounds See `Player`; empty if the recording cannot be played.
 * @param {AbortSignal} signal Signal that stops playback.
 * @returns {{element: HTMLElement, refine: function, hear: function|null, play: function|null, follow: function}} `refine`
 *     draws the view; `hear(interval, title)` plays an interval, `play(from)` to the end; `follow(element, intervals)` highlights an element while one of its
 *     intervals is played.
 */
export function recording(drawing, sounds, signal) {
  const followed = [];
  const waveform = new Waveform(toLastMark(drawing), signal);
  const move = (at) => {
    waveform.moveTo(at);
    for (const { element, intervals } of followed)
      element.classList.toggle(
        "heard",
        intervals.some(([from, to]) => at >= from && at <= to),
      );
  };
  const player = sounds.length ? new Player(sounds, drawing.length, signal, move) : null;
  waveform.playedBy(player);
  const hear = ([from, to], title) => {
    waveform.select(from, to);
    player.play(Math.max(0, from - AROUND_S), to + AROUND_S);
    element.scrollIntoView({
      block: "nearest",
      behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
    });
    announce(`Playing ${title}, ${seconds(from)} to ${seconds(to)}.`);
  };
  const { zoom } = drawing;
  const views = make(
    "span",
    { class: "choice", role: "group", "aria-label": "View" },
    button("Zoom in", () => waveform.zoom(0.5)),
    button("Zoom out", () => waveform.zoom(2)),
    button("Whole", () => waveform.whole()),
    zoom && button(zoom.title, () => waveform.look(zoom.from, zoom.to)),
    player && drawing.clip && button("Save WAV", () => save(drawing.clip(player.audio.src, waveform.selection)), { title: SAVED }),
    drawing.video,
  );
  const marks = drawing.marks.map((mark, index) => {
    const { title, at_s: at } = mark;
    const label = [make("i", { class: `swatch ${classOf(mark)}` }), `${mark.letter ?? index + 1} ${title} ${seconds(at)}`];
    return make(
      "li",
      {},
      player ? button(label, () => hear([at, at], title), { title: "Play the audio around it" }) : label,
    );
  });
  const element = make(
    "section",
    { class: "sound", "aria-label": "Audio" },
    waveform.element,
    make("div", { class: "player" }, player?.element, views),
    make("ol", { class: "mark-list" }, marks),
    player && keyHelp([...(drawing.keys ?? []), ...PLAYER_KEYS]),
  );
  return {
    element,
    refine: () => waveform.refine(),
    hear: player && hear,
    play: player && ((from) => player.play(from)),
    follow: (each, intervals) => followed.push({ element: each, intervals }),
  };
}

/** Extend the axis of a recording to its last mark, because a turn may fail long after its last sound. */
function toLastMark(drawing) {
  const { length: heard, marks, load } = drawing;
  const length = Math.max(heard, ...marks.map(({ at_s: at }) => at));
  const within = (from, to, columns) => load(Math.max(0, Math.min(from, heard - SHORTEST_S)), Math.min(to, heard), columns);
  return length > heard ? { ...drawing, length, load: within } : drawing;
}

/** Save a file from the server, or a blob's address under a name. */
export function save(address, name = "") {
  make("a", { href: address, download: name }).click();
}
