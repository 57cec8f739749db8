listing(document.getElementById("trial-table"), { noun: "trials", named: "trial", details: trialDetails });

function trialDetails(trial, data) {
  const panel = make("div", { class: "panel" });
  if (data.reason) panel.append(make("div", { class: data.verdict === "failed" ? "failure" : "reason" }, data.reason));
  if (data.envelope) {
    const sounds = data.sounds.map(([title, url]) => ({ title, url }));
    const { elements, close } = waves(data, sounds, "There is no sound of this trial.");
    trial.panel.addEventListener("gone", close);
    panel.append(...elements);
  } else {
    panel.append(make("div", { class: "reason" }, "Nothing was recorded."));
  }
  const turns = list("Turns in the run's report", data.turns.map(([id]) => [id, "", ""]));
  data.turns.forEach(([id, href], index) => {
    turns.querySelectorAll("th")[index].replaceChildren(make("a", { href }, id));
  });
  panel.append(
    texts(data.texts),
    make(
      "div",
      { class: "columns" },
      list("Durations", data.durations.map(([title, value]) => [title, value === null ? null : `${round(value, 1)} ms`, ""])),
      list("Trial", data.facts.map(([name, text]) => [name, text, ""])),
      turns,
    ),
  );
  return panel;
}
