// Control a waveform by keyboard and pointer.

const STEP_S = 0.1;
const LONG_STEP_S = 1;
const DRAG_PIXELS = 4;

/** Move the cursor, play and zoom with keys. */
export function answerKeys(element, waveform) {
  element.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? LONG_STEP_S : STEP_S;
    const keys = {
      ArrowLeft: () => waveform.seek(waveform.at - step),
      ArrowRight: () => waveform.seek(waveform.at + step),
      PageDown: () => waveform.seek(waveform.at - LONG_STEP_S),
      PageUp: () => waveform.seek(waveform.at + LONG_STEP_S),
      Home: () => waveform.seek(0),
      End: () => waveform.seek(waveform.length),
      " ": () => waveform.player?.toggle(),
      "+": () => waveform.zoom(0.5),
      "=": () => waveform.zoom(0.5),
      "-": () => waveform.zoom(2),
      0: () => waveform.whole(),
      Escape: () => waveform.mark(null),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
}

/** Play from a clicked time, or play an interval selected by dragging. */
export function answerPointer(element, waveform) {
  element.addEventListener("pointerdown", (down) => {
    if (down.button !== 0) return;
    const { left, width } = element.getBoundingClientRect();
    const moment = ({ clientX }) => {
      const [from, to] = waveform.view;
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
      if (wide) waveform.mark(dragged(event));
    };
    const lift = (event) => {
      ending.abort();
      if (wide) return waveform.player?.play(...dragged(event));
      waveform.mark(null);
      return waveform.player ? waveform.player.play(begin) : waveform.seek(begin);
    };
    element.addEventListener("pointermove", move, { signal });
    element.addEventListener("pointerup", lift, { signal });
    element.addEventListener("pointercancel", () => ending.abort(), { signal });
  });
}
