// Start runs: a form, its equivalent command, and the runs started here.
import { path, post, read } from "./api.js";
import { EndpointChoice } from "./endpoint_choice.js";
import { JudgeChoice } from "./judge_choice.js";
import { progressBar, stateBadge } from "./progress.js";
import { badge, button, choice, fill, make, problem } from "./web/elements.js";
import { words } from "./web/format.js";
import { about } from "./web/scores.js";

const POLL_MS = 1_000;
const TYPING_MS = 300;
const TURNS_FAILED = 3; // exit status of a run with failed turns
const WRONG_USAGE = 2;
const STOPPED = 130;

export async function show(place, { signal }) {
  const choices = await read("/api/start", { signal });
  const started = make("div");
  const list = new Started(started, signal);
  fill(
    place,
    make("h1", {}, "New run"),
    new Form(choices, () => list.follow()).element,
    make("h2", {}, "Started here"),
    started,
  );
  await list.follow();
  return "New run";
}

/** The form for the settings of a run. */
class Form {
  constructor(choices, begun) {
    this.choices = choices;
    this.begun = begun;
    this.newest = 0;
    this.judges = new JudgeChoice(choices.judges, "the default judges that can run here", () => this.changed());
    const texts = { missing: "", launched: "started with the run" };
    this.chosen = new EndpointChoice(choices.endpoints, choices.usual.endpoint, texts, () => this.changed());
    this.voice = field("Voice", { name: "voice" });
    this.limit = field("Cases", { name: "limit", type: "number", min: 1, value: 5, placeholder: "all" });
    this.cues = field("Cues", { name: "cues", placeholder: "all, or breath, sigh" });
    const suggested = make("datalist", { id: "impairments" }, choices.impairments.map((value) => make("option", { value })));
    this.impairment = field("Impairment", { name: "impairment", placeholder: "none, or noise=10dB", list: suggested.id });
    this.defined = about(impairments(choices.impairment_names)); // a button in a label would take its clicks
    this.impairment.append(suggested);
    this.concurrency = field("Concurrent sessions", {
      name: "concurrency",
      type: "number",
      min: 1,
      max: 1000,
      value: choices.usual.concurrency,
    });
    this.repeat = field("Repeats", { name: "repeat", type: "number", min: 1, value: choices.usual.repeat });
    this.command = make("code");
    this.copying = button("Copy the command", () => this.copy(), { disabled: true });
    this.copied = make("span", { role: "status" });
    this.failure = make("div");
    this.element = this.form();
    this.changed();
  }

  form() {
    const { data, tasks, prompts, usual } = this.choices;
    const { names, modes, model, needs } = this.chosen;
    ({ data: this.data, task: this.task, prompt: this.prompt } = usual);
    const set = (key) => (value) => {
      this[key] = value;
      this.changed();
    };
    return make(
      "form",
      { class: "start", submit: (event) => this.start(event), input: () => this.changed() },
      group(
        "Endpoint",
        names,
        make("label", {}, "Model", model),
        this.voice,
        modes,
        needs,
      ),
      group("Data", choice("Data set", "data", data, this.data, set("data")), this.limit, this.cues, this.impairment, this.defined),
      group(
        "Task",
        choice(
          "Task",
          "task",
          tasks.map((task) => [task, words(task)]),
          this.task,
          set("task"),
        ),
        choice("Prompt", "prompt", prompts, this.prompt, set("prompt")),
        this.concurrency,
        this.repeat,
      ),
      this.judges.element,
      make("pre", { class: "command" }, this.command),
      this.failure,
      make(
        "p",
        {},
        make("button", { class: "primary" }, "Start"),
        " ",
        this.copying,
        " ",
        this.copied,
      ),
      make(
        "p",
        { class: "note" },
        "Vendors charge for every turn; run the command with --estimate for time and cost. API keys are read from the " +
          "studio's environment.",
      ),
    );
  }

  /** Return the settings that differ from their defaults, as tables of a run file. */
  settings() {
    const { usual } = this.choices;
    const unless = (value, other) => (value === other ? null : value);
    const text = (label) => valueOf(label).value.trim();
    const count = (label, usual) => {
      const value = text(label);
      return value === "" || Number(value) === usual ? null : Number(value);
    };
    const cues = text(this.cues)
      .split(",")
      .map((cue) => cue.trim())
      .filter(Boolean);
    return given({
      endpoint: given({ ...this.chosen.table, voice: text(this.voice) }),
      data: given({
        path: unless(this.data, usual.data),
        limit: count(this.limit),
        cues: cues.length ? cues : null,
      }),
      task: given({
        name: unless(this.task, usual.task),
        prompt: unless(this.prompt, usual.prompt),
      }),
      turns: given({
        mode: unless(this.chosen.mode, this.chosen.usualMode),
        concurrency: count(this.concurrency, usual.concurrency),
        repeat: count(this.repeat, usual.repeat),
      }),
      impair: given({ specs: text(this.impairment) ? [text(this.impairment)] : null }),
      judges: given({ names: this.judges.names }),
    });
  }

  changed() {
    clearTimeout(this.typing);
    this.newest += 1; // responses may arrive out of order
    const number = this.newest;
    this.began = null; // the displayed command belongs to earlier settings
    this.copying.disabled = true;
    fill(this.copied);
    this.typing = setTimeout(async () => {
      const { command, began, error } = await post("/api/start/command", this.settings()).catch((error) => ({ error }));
      if (number !== this.newest) return;
      this.began = began;
      fill(this.command, command);
      fill(this.failure, error && problem(error));
      this.copying.disabled = !command;
    }, TYPING_MS);
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(this.command.textContent);
      fill(this.copied, "copied");
    } catch {
      getSelection().selectAllChildren(this.command); // only pages on HTTPS or localhost may copy
      fill(this.copied, "The command is selected: copy it with the keyboard.");
    }
  }

  async start(event) {
    event.preventDefault();
    try {
      await post("/api/start", given({ ...this.settings(), began: this.began }));
      this.changed(); // the next run has another folder
      fill(this.failure);
      await this.begun();
    } catch (error) {
      fill(this.failure, problem(error));
    }
  }
}

/** The list of runs that the studio has started. */
class Started {
  constructor(element, signal) {
    this.element = element;
    this.signal = signal;
    signal.addEventListener("abort", () => clearTimeout(this.timer));
  }

  /** Show the runs, and update them while one is in progress. */
  async follow() {
    clearTimeout(this.timer);
    const runs = await read("/api/started", { signal: this.signal });
    this.draw(runs);
    if (runs.some(({ running }) => running) && !this.signal.aborted) {
      this.timer = setTimeout(() => this.follow().catch((error) => this.fail(error)), POLL_MS);
    }
  }

  fail(error) {
    if (!this.signal.aborted) this.element.append(problem(error));
  }

  draw(runs) {
    const open = new Set([...this.element.querySelectorAll("details[open]")].map(({ id }) => id));
    const selection = getSelection();
    if (!selection.isCollapsed && this.element.contains(selection.anchorNode)) return; // the user is copying text
    const focus = this.element.contains(document.activeElement) && document.activeElement.id;
    fill(
      this.element,
      runs.length
        ? runs.map((run) => this.item(run, open.has(`output-${run.id}`)))
        : make("p", { class: "note" }, "No runs yet."),
    );
    if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
  }

  item(run, open) {
    const act = (verb) => async () => {
      try {
        await post(path("api", "started", run.id, verb));
        await this.follow();
      } catch (error) {
        this.fail(error);
      }
    };
    const rest = run.run && run.run.planned !== null && run.run.turns < run.run.planned;
    return make(
      "section",
      { class: "started" },
      make("h3", {}, run.run ? make("a", { href: `#/runs/${run.id}`, id: `open-${run.id}` }, run.name) : run.name, " ", stateOf(run)),
      run.run && !run.run.problem && progressBar(run.name, run.run),
      isScoring(run) && run.lines.length > 0 && make("p", { class: "note" }, run.lines.at(-1)),
      make("pre", { class: "command" }, make("code", {}, run.command)),
      run.running
        ? button(run.stopping ? "Stop immediately" : "Stop", act("stop"), {
            id: `stop-${run.id}`,
            title: run.stopping ? null : "the turns in progress are abandoned",
          })
        : (rest || ![0, TURNS_FAILED].includes(run.status)) &&
          button(run.run ? "Resume" : "Try again", act("resume"), { id: `resume-${run.id}` }),
      run.lines.length > 0 &&
        make(
          "details",
          { id: `output-${run.id}`, open: open || (!run.running && run.status === WRONG_USAGE) },
          make("summary", { id: `show-${run.id}` }, "Output"),
          make("pre", { class: "output" }, run.lines.join("\n")),
        ),
    );
  }
}

/** Return whether a run has recorded all its turns and is still in progress. */
function isScoring({ running, run }) {
  return running && Boolean(run) && run.planned !== null && run.turns >= run.planned;
}

function stateOf(started) {
  const { running, stopping, status, run } = started;
  const phase = isScoring(started) ? "scoring" : run ? "running" : "starting";
  if (running) return badge(stopping ? "stopping" : phase, "running");
  if (status === 0 && run) return stateBadge(run);
  if (status === STOPPED) return badge("interrupted", "flagged");
  return badge(status === TURNS_FAILED ? "finished with failures" : `ended with status ${status}`, "failed");
}

function impairments(names) {
  return {
    name: names.join(", "),
    heading: "impairments",
    title: "Impairments of the user's audio and of the network",
    definition:
      "NAME=VALUE, joined by commas, such as noise=10dB,noise_type=babble. Loss and reordering apply to WebRTC only; " +
      "live-eval impair --list explains every name.",
  };
}

function group(title, ...fields) {
  return make("fieldset", {}, make("legend", {}, title), fields);
}

function field(label, attributes) {
  return make("label", {}, label, make("input", { autocomplete: "off", ...attributes }));
}

function valueOf(label) {
  return label.querySelector("input");
}

/** Return the entries that have a value. */
function given(entries) {
  return Object.fromEntries(
    Object.entries(entries).filter(([, value]) => value !== null && value !== "" && value !== undefined),
  );
}
