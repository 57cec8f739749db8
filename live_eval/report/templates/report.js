listing(document.getElementById("turn-table"), { noun: "turns", named: "turn", details: turnDetails });

function turnDetails(turn, data) {
  const panel = make("div", { class: "panel" });
  if (data.failure) panel.append(make("div", { class: "failure" }, make("b", {}, data.failure[0]), ": ", data.failure[1]));
  if (data.envelope) panel.append(...turnWaves(turn, data));
  const lag = [["lag (error bar)", data.lag[0], data.lag[1] ? "above the limit" : ""]];
  panel.append(
    texts(data.texts),
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

function turnWaves(turn, data) {
  const mark = (kind) => (data.marks.find((one) => one[0] === kind) || [])[2];
  const [end, audible] = [mark("end"), mark("audible")];
  const gap = end !== undefined && audible !== undefined ? [Math.min(end, audible), Math.max(end, audible)] : null;
  const sounds = [];
  const sound = document.getElementById(`sound-${turn.row.id}`);
  if (sound) {
    const url = URL.createObjectURL(new Blob([bytes(sound.textContent.trim())], { type: sound.dataset.mime }));
    sounds.push({ title: "both", url });
    turn.panel.addEventListener("gone", () => URL.revokeObjectURL(url));
  }
  const drawing = {
    ...data,
    shades: gap ? [[null, "gap", ...gap]] : [],
    zoom: gap ? { title: "Zoom to the handover", from: gap[0] - 0.4, to: gap[1] + 0.6 } : null,
  };
  const { elements, close } = waves(drawing, sounds, "The sound of this turn is not in the page; its files are named below.");
  turn.panel.addEventListener("gone", close);
  return elements;
}
