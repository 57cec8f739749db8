// What keys and pointers do to the tracks of a turn.

const STEP_S = 0.1;
const LONG_STEP_S = 1;
const DRAG_PIXELS = 4;

/** Move the cursor, play and zoom by keys. */
export function answerKeys(element, tracks, player) {
  element.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? LONG_STEP_S : STEP_S;
    const keys = {
      ArrowLeft: () => player.seek(tracks.at - step),
      ArrowRight: () => player.seek(tracks.at + step),
      PageDown: () => player.seek(tracks.at - LONG_STEP_S),
      PageUp: () => player.seek(tracks.at + LONG_STEP_S),
      Home: () => player.seek(0),
      End: () => player.seek(tracks.length),
      " ": () => player.toggle(),
      "+": () => tracks.zoom(0.5),
      "=": () => tracks.zoom(0.5),
      "-": () => tracks.zoom(2),
      0: () => tracks.whole(),
      Escape: () => tracks.mark(null),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
}

/** Play from where somebody clicks, or the interval that they drag over. */
export function answerPointer(element, tracks, player) {
  element.addEventListener("pointerdown", (down) => {
    if (down.button !== 0) return;
    const { left, width } = element.getBoundingClientRect();
    const moment = ({ clientX }) => {
      const [from, to] = tracks.view;
      return from + Math.max(0, Math.min(1, (clientX - left) / width)) * (to - from);
    };
    const begin = moment(down);
    const dragged = (event) => [begin, moment(event)].sort((one, other) => one - other);
    const ending = new AbortController();
    const { signal } = ending;
    let wide = false;
    element.setPointerCapture(down.pointerId);
    const move = (event) => {
      wide ||= Math.abs(event.clientX - down.clientX) > DRAG_PIXELS;
      if (wide) tracks.mark(dragged(event));
    };
    const lift = (event) => {
      ending.abort();
      if (wide) return player.play(...dragged(event));
      tracks.mark(null);
      return player.play(begin);
    };
    element.addEventListener("pointermove", move, { signal });
    element.addEventListener("pointerup", lift, { signal });
    element.addEventListener("pointercancel", () => ending.abort(), { signal });
  });
}
