// Show the transcript of a turn with times and, on request, the times of words.
import { path, read } from "./api.js";
import { announce, button, fill, make } from "./web/elements.js";
import { seconds } from "./web/format.js";

/**
 * Make the transcript.
 *
 * @param {string[]} address The parts of the turn's address.
 * @param {Array<{side: string, text: string, transcribed: boolean, sounds: number[][]}>} lines
 * @param {{hear: function, follow: function}|null} sound Player of the lines; null if there is no audio.
 * @param {AbortSignal} signal
 */
export function transcript(address, lines, sound, signal) {
  if (!lines.length) return make("p", { class: "note" }, "Neither side spoke.");
  const items = lines.map((line) => item(line, sound));
  const list = make("ol", { class: "transcript" }, items);
  if (!sound || lines.every((line) => !line.sounds.length)) return list;
  const state = make("span", { class: "note", role: "status" });
  const show = async () => {
    timing.disabled = true;
    fill(state, "Recognising the words …");
    try {
      const { recogniser, lines: words } = await read(path(...address, "words"), { signal });
      words.forEach((each, index) => items[index].append(wordTimes(each, sound)));
      timing.remove();
      fill(state, `Words recognised by ${recogniser}; word times are accurate to about 0.1 s.`);
      list.querySelector(".word-times button")?.focus();
    } catch (error) {
      if (signal.aborted) return;
      timing.disabled = false;
      fill(state, error.message);
      announce(error.message);
    }
  };
  const timing = button("Show the times of words", show);
  return [list, make("p", { class: "actions" }, timing, state)];
}

function item({ side, text, transcribed, sounds }, sound) {
  const span = sounds.length ? [sounds[0][0], sounds.at(-1)[1]] : null;
  const times = span ? `${seconds(span[0])} to ${seconds(span[1])}` : "not heard";
  const element = make(
    "li",
    { class: side },
    make("span", { class: "speaker" }, side === "user" ? "user" : "endpoint"),
    sound && span
      ? button(times, () => sound.hear(span, `the ${side}'s speech`), { "aria-label": `Play ${times}` })
      : make("span", { class: "times" }, times),
    make(
      "span",
      { class: "said" },
      text || "(no text)",
      transcribed && make("small", { class: "of" }, "as the endpoint's transcriber heard it"),
    ),
  );
  sound?.follow(element, sounds);
  return element;
}

function wordTimes(words, sound) {
  const buttons = words.map(({ text, start_s: from, end_s: to }) => {
    const word = button(
      [text, make("small", {}, ` ${from.toFixed(2)}`)],
      () => sound.hear([from, to], `“${text}”`),
      {
        class: "word",
        title: `${seconds(from)} to ${seconds(to)}`,
      },
    );
    sound.follow(word, [[from, to]]);
    return word;
  });
  return make("span", { class: "word-times" }, buttons.length ? buttons : "No words recognised.");
}
