// Both sides over time, with marks, and a player that follows.
//
// drawing: `envelope` (loudness of both sides in steps), `seconds`, `marks` ([kind, title, second]), `shades` ([lane,
// class, from, to]; lane 0 the user, 1 the endpoint, null both), `zoom` ({title, from, to} or null), `said` (in words,
// for screen readers). sounds: [{title, url}], the first of which is played first; `silence` says why there are none.
// Returns the elements, and `close` to call when they go.
function waves({ envelope, seconds, marks, shades, zoom, said }, sounds, silence) {
  const lanes = [bytes(envelope.user), bytes(envelope.endpoint)];
  const step = envelope.step;
  const loudest = lanes.reduce((most, levels) => levels.reduce((a, b) => Math.max(a, b), most), 1);
  const gain = Math.min(3, 255 / loudest); // both lanes are drawn to one scale
  const whole = [0, seconds];
  let range = whole;
  let audio = null;

  const svg = make("svg", { viewBox: "0 0 1000 200", preserveAspectRatio: "none", "aria-hidden": "true" });
  const cursor = make("line", { class: "cursor", y1: 0, y2: 200, visibility: "hidden" });
  const ticks = make("div");
  const flags = make("div", { class: "flags" });
  const frame = make(
    "div", { class: "wave", role: "img", "aria-label": `Waveforms of both sides, ${round(seconds, 1)} seconds. ${said || "The marks are listed below."}` },
    flags,
    make("div", { class: "lanes" }, svg, make("span", { class: "lane user" }, "user"), make("span", { class: "lane endpoint" }, "endpoint")),
    ticks,
  );
  const x = (at) => (1000 * (at - range[0])) / (range[1] - range[0]);

  function lane(levels, middle) {
    const from = Math.max(0, Math.floor(range[0] / step));
    const to = Math.min(levels.length, Math.ceil(range[1] / step));
    let top = "", bottom = "";
    for (let index = from; index < to; index += 1) {
      const height = Math.max(0.6, 46 * Math.min(1, (levels[index] * gain) / 255) ** 1.4);
      const [left, right] = [x(index * step).toFixed(1), x((index + 1) * step).toFixed(1)];
      top += `L${left} ${(middle - height).toFixed(1)}H${right}`;
      bottom = `L${right} ${(middle + height).toFixed(1)}H${left}` + bottom;
    }
    return `M${x(from * step).toFixed(1)} ${middle}${top}${bottom}Z`;
  }

  // Numbers of the marks, in as many lines as it takes to keep neighbours apart.
  function drawFlags() {
    const ends = [];
    flags.replaceChildren();
    marks.forEach(([kind, title, at], index) => {
      const left = x(at) / 10;
      if (left < 0 || left > 100) return;
      let line = ends.findIndex((end) => left - end > 2.5);
      if (line < 0) line = ends.length;
      ends[line] = left;
      flags.append(make("span", { class: `flag m-${kind}`, style: `left:${left.toFixed(2)}%;top:${line}em`, title }, String(index + 1)));
    });
    flags.style.height = `${Math.max(1, ends.length)}em`;
  }

  function draw() {
    svg.replaceChildren();
    for (const [place, kind, from, to] of shades) {
      const [y, height] = place === null ? [0, 200] : [100 * place, 100];
      svg.append(make("rect", { class: kind, x: x(from), width: Math.max(0, x(to) - x(from)), y, height }));
    }
    svg.append(make("path", { class: "user-wave", d: lane(lanes[0], 50) }), make("path", { class: "endpoint-wave", d: lane(lanes[1], 150) }));
    for (const [kind, , at] of marks) svg.append(make("line", { class: `mark m-${kind}`, x1: x(at), x2: x(at), y1: 0, y2: 200 }));
    svg.append(cursor);
    const span = range[1] - range[0];
    const unit = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120].find((one) => span / one <= 8) || 300;
    const labels = [];
    for (let at = Math.ceil(range[0] / unit) * unit; at <= range[1] + 1e-9; at += unit) {
      const left = x(at) / 10;
      const edge = left < 2 ? " first" : left > 97 ? " last" : "";
      labels.push(make("span", { class: `tick${edge}`, style: `left:${left.toFixed(2)}%` }, `${round(Math.abs(at) < 1e-9 ? 0 : at, unit < 0.1 ? 2 : unit < 1 ? 1 : 0)} s`));
    }
    ticks.replaceChildren(...labels);
    drawFlags();
    moveCursor();
  }

  function moveCursor() {
    const at = audio ? audio.currentTime : 0;
    const visible = audio && (at > 0 || !audio.paused) && at >= range[0] && at <= range[1];
    cursor.setAttribute("visibility", visible ? "visible" : "hidden");
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
  }

  function playFrom(at) {
    audio.currentTime = Math.max(0, Math.min(seconds, at));
    audio.play();
  }

  function entry([kind, title, at], index) {
    const words = [make("i", { class: `swatch m-${kind}` }), `${index + 1} ${title} ${round(at, 2)} s`];
    if (!audio) return make("li", {}, ...words);
    const button = make("button", { type: "button", title: "Play from half a second before" }, ...words);
    button.addEventListener("click", () => playFrom(at - 0.5));
    return make("li", {}, button);
  }

  const player = make("div", { class: "player" });
  if (sounds.length) {
    audio = make("audio", { controls: "", preload: "metadata", src: sounds[0].url });
    const follow = () => { moveCursor(); if (!audio.paused && frame.isConnected) requestAnimationFrame(follow); };
    audio.addEventListener("play", () => {
      for (const other of document.querySelectorAll("audio")) if (other !== audio) other.pause();
      follow();
    });
    audio.addEventListener("seeked", moveCursor);
    audio.addEventListener("error", () => player.append(make("span", { class: "reason" }, "This browser cannot play the sound.")));
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      playFrom(range[0] + ((event.clientX - box.left) / box.width) * (range[1] - range[0]));
    });
    player.append(audio);
    if (sounds.length > 1) player.append(choice());
  } else {
    player.append(make("span", { class: "reason" }, silence));
  }

  // Which side is heard; the player goes on from where it is.
  function choice() {
    const buttons = sounds.map(({ title, url }, index) => {
      const button = make("button", { type: "button", "aria-pressed": String(index === 0) }, title);
      button.addEventListener("click", () => {
        const [at, playing] = [audio.currentTime, !audio.paused];
        audio.src = url;
        audio.currentTime = at;
        if (playing) audio.play();
        for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      });
      return button;
    });
    return make("span", { class: "choice", role: "group", "aria-label": "Side to hear" }, ...buttons);
  }

  if (zoom) {
    const button = make("button", { type: "button", "aria-pressed": "false" }, zoom.title);
    button.addEventListener("click", () => {
      const near = range === whole;
      range = near ? [Math.max(0, zoom.from), Math.min(seconds, zoom.to)] : whole;
      button.setAttribute("aria-pressed", String(near));
      button.textContent = near ? "Show the whole" : zoom.title;
      draw();
    });
    player.append(button);
  }
  const legend = make("ul", { class: "legend marks" }, ...marks.map(entry));
  draw();
  return { elements: [frame, legend, player], close: () => { if (audio) audio.pause(); } };
}
