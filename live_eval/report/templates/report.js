"use strict";
(() => {
  const PAGE = 100;
  const table = document.getElementById("turn-table");
  const body = table.tBodies[0];
  const form = document.querySelector(".filters");
  const pages = document.querySelector(".pages");
  const rows = [...body.rows].map((row, order) => ({
    row,
    order,
    name: row.querySelector(".name").textContent,
    run: Number(row.dataset.run),
    cue: row.dataset.cue,
    variant: row.dataset.variant,
    task: row.dataset.task,
    status: row.dataset.status.split(" "),
    search: row.dataset.search,
    values: row.dataset.values.split(" ").map((text) => (text === "" ? null : Number(text))),
    panel: null,
  }));
  let matching = rows;
  let shown = PAGE;
  let sorting = { by: "order", down: false };

  // Every text below comes from an endpoint or a data set: it goes in as text, never as markup.
  function make(tag, attributes = {}, ...children) {
    const svg = ["svg", "path", "rect", "line"].includes(tag);
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  // -- the table ------------------------------------------------------------------------------------------

  function compare(a, b) {
    const by = sorting.by;
    let one, two;
    if (by === "order" || by === "cue") [one, two] = [a[by], b[by]];
    else if (by === "status") [one, two] = [a.status.join(" "), b.status.join(" ")];
    else [one, two] = [a.values[by], b.values[by]];
    if (one === two) return a.order - b.order;
    if (one === null) return 1; // missing figures come last, in both directions
    if (two === null) return -1;
    return (one < two ? -1 : 1) * (sorting.down ? -1 : 1);
  }

  function refresh() {
    const wanted = (name) => (form.elements[name] ? form.elements[name].value : "");
    const words = wanted("search").toLowerCase().split(/\s+/).filter(Boolean);
    matching = rows
      .filter(
        (turn) =>
          (wanted("run") === "" || turn.run === Number(wanted("run"))) &&
          (wanted("cue") === "" || turn.cue === wanted("cue")) &&
          (wanted("variant") === "" || turn.variant === wanted("variant")) &&
          (wanted("task") === "" || turn.task === wanted("task")) &&
          (wanted("status") === "" || turn.status.includes(wanted("status"))) &&
          words.every((word) => turn.search.includes(word)),
      )
      .sort(compare);
    draw();
  }

  function draw() {
    const visible = matching.slice(0, shown);
    const fragment = document.createDocumentFragment();
    for (const turn of visible) {
      fragment.append(turn.row);
      if (turn.panel) fragment.append(turn.panel);
    }
    // Rows that are not shown stay in memory: a table of thousands of rows is slow to lay out.
    body.replaceChildren(fragment);
    form.querySelector("output").value = `${matching.length} of ${rows.length} turns`;
    pages.hidden = visible.length === matching.length;
    pages.querySelector("[name=more]").textContent = `Show ${Math.min(PAGE, matching.length - visible.length)} more`;
  }

  for (const heading of table.tHead.rows[0].cells) {
    const button = make("button", { type: "button" }, ...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const by = /^\d+$/.test(heading.dataset.sort) ? Number(heading.dataset.sort) : heading.dataset.sort;
      sorting = { by, down: sorting.by === by ? !sorting.down : typeof by === "number" };
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
      refresh();
    });
  }
  form.addEventListener("input", () => { shown = PAGE; refresh(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  pages.querySelector("[name=more]").addEventListener("click", () => { shown += PAGE; draw(); });
  pages.querySelector("[name=all]").addEventListener("click", () => { shown = Infinity; draw(); });

  for (const turn of rows) {
    const name = turn.row.querySelector(".name");
    const button = make("button", { type: "button", class: "name", "aria-expanded": "false" }, name.textContent);
    name.replaceWith(button);
    button.addEventListener("click", () => toggle(turn));
  }

  function toggle(turn) {
    const button = turn.row.querySelector("button.name");
    if (turn.panel) {
      turn.panel.remove();
      turn.panel.dispatchEvent(new Event("gone"));
      turn.panel = null;
    } else {
      const data = JSON.parse(turn.row.querySelector("script").textContent);
      const panel = make("td", { colspan: String(turn.row.cells.length) });
      turn.panel = make("tr", { class: "detail" }, panel);
      panel.append(details(turn, data));
      turn.row.after(turn.panel);
    }
    button.setAttribute("aria-expanded", String(turn.panel !== null));
  }

  // -- one turn -------------------------------------------------------------------------------------------

  const round = (value, digits) => value.toFixed(digits).replace("-", "−");

  function details(turn, data) {
    const panel = make("div", { class: "panel" });
    if (data.failure) panel.append(make("div", { class: "failure" }, make("b", {}, data.failure[0]), ": ", data.failure[1]));
    const sound = document.getElementById(`sound-${turn.row.id}`);
    if (data.envelope) panel.append(...waves(turn, data, sound));
    panel.append(
      make("dl", { class: "texts" }, ...data.texts.map(([title, text]) => make("div", {}, make("dt", {}, title), make("dd", {}, text)))),
    );
    const lag = [["lag (error bar)", data.lag[0], data.lag[1] ? "above the limit" : ""]];
    panel.append(
      make(
        "div",
        { class: "columns" },
        list("Latency", data.latencies.concat(lag).map(([title, value, reason]) => [title, value === null ? null : `${round(value, 1)} ms`, reason])),
        list("Scores", data.scores.map(([name, value, unit, reason]) => [name, value === null ? null : `${round(value, 2)} ${unit}`, reason])),
        list("Turn", data.facts.map(([name, text]) => [name, text, ""])),
        list("Responses", data.responses.map(([status, reason, text, headline]) => [headline ? `${status} (measured)` : status, reason || "–", text])),
        list("Warnings", data.warnings.map(([kind, message]) => [kind, message, ""])),
      ),
    );
    return panel;
  }

  function list(title, entries) {
    if (!entries.length) return null;
    const table = make("table");
    for (const [name, value, reason] of entries) {
      const cell = make("td", {}, value === null ? "– " : `${value} `);
      if (reason) cell.append(make("span", { class: "reason" }, reason));
      table.append(make("tr", {}, make("th", { scope: "row" }, name), cell));
    }
    return make("div", {}, make("h3", {}, title), table);
  }

  function bytes(text) {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  }

  function waves(turn, data, sound) {
    const lanes = [bytes(data.envelope.user), bytes(data.envelope.endpoint)];
    const step = data.envelope.step;
    const loudest = lanes.reduce((most, levels) => levels.reduce((a, b) => Math.max(a, b), most), 1);
    const gain = Math.min(3, 255 / loudest); // both lanes are drawn to one scale
    const whole = [0, data.seconds];
    const mark = (kind) => (data.marks.find((one) => one[0] === kind) || [])[2];
    const [end, audible] = [mark("end"), mark("audible")];
    const gap = end !== undefined && audible !== undefined ? [Math.min(end, audible), Math.max(end, audible)] : null;
    let range = whole;
    let audio = null;

    const svg = make("svg", { viewBox: "0 0 1000 200", preserveAspectRatio: "none", role: "img" });
    svg.setAttribute("aria-label", `Waveforms of both sides, ${round(data.seconds, 1)} seconds; the marks are listed below`);
    const cursor = make("line", { class: "cursor", y1: 0, y2: 200, visibility: "hidden" });
    const ticks = make("div");
    const frame = make(
      "div", { class: "wave" }, svg, ticks,
      make("span", { class: "lane user" }, "user"), make("span", { class: "lane endpoint" }, "endpoint"),
    );
    const x = (seconds) => (1000 * (seconds - range[0])) / (range[1] - range[0]);

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

    function drawWaves() {
      svg.replaceChildren();
      if (gap) svg.append(make("rect", { class: "gap", x: x(gap[0]), width: Math.max(0, x(gap[1]) - x(gap[0])), y: 0, height: 200 }));
      svg.append(make("path", { class: "user-wave", d: lane(lanes[0], 50) }), make("path", { class: "endpoint-wave", d: lane(lanes[1], 150) }));
      for (const [kind, , at] of data.marks) svg.append(make("line", { class: `mark m-${kind}`, x1: x(at), x2: x(at), y1: 0, y2: 200 }));
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
      moveCursor();
    }

    function moveCursor() {
      const at = audio ? audio.currentTime : 0;
      const visible = audio && (at > 0 || !audio.paused) && at >= range[0] && at <= range[1];
      cursor.setAttribute("visibility", visible ? "visible" : "hidden");
      cursor.setAttribute("x1", x(at));
      cursor.setAttribute("x2", x(at));
    }

    const legend = make(
      "ul", { class: "legend" },
      ...data.marks.map(([kind, title, at]) => make("li", {}, make("i", { class: `swatch m-${kind}` }), `${title} ${round(at, 2)} s`)),
    );
    const player = make("div", { class: "player" });
    if (sound) {
      audio = make("audio", { controls: "", preload: "auto" });
      const url = URL.createObjectURL(new Blob([bytes(sound.textContent.trim())], { type: sound.dataset.mime }));
      audio.src = url;
      const follow = () => { moveCursor(); if (!audio.paused && frame.isConnected) requestAnimationFrame(follow); };
      audio.addEventListener("play", () => {
        for (const other of document.querySelectorAll("audio")) if (other !== audio) other.pause();
        follow();
      });
      audio.addEventListener("seeked", moveCursor);
      audio.addEventListener("error", () => player.append(make("span", { class: "reason" }, "This browser cannot play the sound.")));
      turn.panel.addEventListener("gone", () => { audio.pause(); URL.revokeObjectURL(url); });
      svg.addEventListener("click", (event) => {
        const box = svg.getBoundingClientRect();
        audio.currentTime = range[0] + ((event.clientX - box.left) / box.width) * (range[1] - range[0]);
        audio.play();
      });
      player.append(audio);
    } else {
      player.append(make("span", { class: "reason" }, "The sound of this turn is not in the page; its files are named below."));
    }
    if (gap) {
      const zoom = make("button", { type: "button", "aria-pressed": "false" }, "Zoom to the handover");
      zoom.addEventListener("click", () => {
        const near = range === whole;
        range = near ? [Math.max(0, gap[0] - 0.4), Math.min(data.seconds, gap[1] + 0.6)] : whole;
        zoom.setAttribute("aria-pressed", String(near));
        zoom.textContent = near ? "Show the whole turn" : "Zoom to the handover";
        drawWaves();
      });
      player.append(zoom);
    }
    drawWaves();
    return [frame, legend, player];
  }

  // -- initial state --------------------------------------------------------------------------------------

  function open() {
    const named = new URLSearchParams(location.hash.slice(1)).get("turn"); // a link from another page
    const turn = rows.find((one) => `#${one.row.id}` === location.hash || one.name === named);
    if (!turn) return;
    form.reset();
    sorting = { by: "order", down: false };
    shown = Math.max(shown, turn.order + 1);
    refresh();
    if (!turn.panel) toggle(turn);
    turn.row.scrollIntoView();
  }

  form.hidden = false;
  refresh();
  window.addEventListener("hashchange", open);
  open();
})();
