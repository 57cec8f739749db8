// Show a conversation to an audience, in large type: state, both voices, and latency. Talk runs the conversation.
import { announce, button, make } from "./web/elements.js";
import { counted, failureInWords } from "./web/format.js";
import { Absence } from "./stage_absence.js";
import { StageEndpoint } from "./stage_endpoint.js";
import { BLOCK_MS } from "./stage_voices.js";
import { ScrollingWave } from "./stage_wave.js";
import { showTalk } from "./talk.js";
import { Conversation, MUTED_DB } from "./talk_conversation.js";

const LEAD =
  "Shows a conversation to an audience, in large type: who has the turn, both voices, the latency and the scores.";
const STATES = ["listening", "thinking", "speaking"];
const ABSENCE_S = 30; // then the note of what was missed disappears
const LONGEST_HOLD_MS = 150; // then both voices are drawn although one may begin or end
const BEFORE_AND_AFTER = {
  opening: "opening the microphone …",
  launching: "starting the endpoint …",
  starting: "connecting …",
  disconnected: "disconnected",
  scoring: "waiting for scores; End again to skip them",
  ended: "storing the conversation …",
};

export const show = (place, view) => showTalk(place, view, { title: "Stage", lead: LEAD }, Stage);

/** A conversation, as displayed to the audience. */
class Stage extends Conversation {
  layOut() {
    this.shown = new StageEndpoint(this.levelRule);
    this.taking = this.shown.taking; // of the voices that the room hears
    this.latency = this.shown.latency;
    this.wave = new ScrollingWave();
    this.settledMs = 0;
    this.absence = new Absence(() => this.taking.at, (text) => this.note({ about: "absence", text, seconds: ABSENCE_S }));
    this.lamps = STATES.map((state) => make("li", { "data-lamp": state }, state));
    this.state = make("p", { class: "stage-state" }, BEFORE_AND_AFTER.opening);
    this.you = make("span", { class: "stage-name user" }, "you");
    const { endpoint, more_endpoints: more } = this.request;
    this.reply = make("span", { class: "stage-name reply" }, "reply");
    this.endpoint = make("p", { class: "stage-endpoint" }, more ? "" : endpoint.name);
    this.captions = make("div", { class: "stage-captions" }, this.log);
    this.controls.append(button("Full screen", () => this.fullScreen(), { "aria-keyshortcuts": "F" }));
    return make(
      "section",
      { class: "stage", "aria-label": "Stage", tabindex: "-1", "data-stage": "opening" },
      make("h1", { class: "unseen" }, "Stage"),
      make(
        "header",
        { class: "stage-head" },
        make("ul", { class: "stage-lamps", "aria-label": "State" }, this.lamps),
        this.state,
        this.endpoint,
      ),
      make(
        "div",
        { class: "stage-voices" },
        this.you,
        this.wave.canvas,
        this.reply,
      ),
      this.warnings,
      make("div", { class: "stage-columns" }, this.together, this.latency.element, this.captions),
      this.shown.scores.element,
      make("footer", { class: "stage-foot" }, this.controls, this.keys, this.notes, this.run),
    );
  }

  began(facts, streams) {
    super.began(facts, streams);
    if (!this.sound) this.analyse(streams);
    this.shown.begin(this.cards ? [] : facts.judges, facts.turn_mode === "manual");
    if (this.cards) this.latency.element.remove();
    this.showHeard();
    this.draw();
  }

  take(block) {
    super.take(block);
    const { peaks, levels, spectra } = block;
    const user = this.silent ? MUTED_DB : levels[0];
    if (this.silent) {
      peaks[0] = 0;
      spectra?.[0].fill(0);
    }
    this.wave.add(peaks, spectra);
    if (this.you.hasAttribute("data-muted") !== this.silent) this.showMuted();
    if (this.taking.hear(user, levels[1])) this.light();
    this.you.toggleAttribute("data-speaks", this.taking.user.audible);
    this.reply.toggleAttribute("data-speaks", this.taking.reply.audible);
  }

  showMuted() {
    this.you.toggleAttribute("data-muted", this.silent);
    this.you.textContent = this.silent ? "you: muted" : "you";
  }

  /** Name the endpoint that the room hears. */
  showHeard() {
    if (this.cards) this.endpoint.textContent = this.cards.heardInWords;
  }

  light() {
    if (this.element.dataset.stage !== this.taking.state && this.talking) {
      this.element.dataset.stage = this.taking.state;
    }
    if (this.taking.state !== "thinking") this.latency.waitEnds(this.taking.state === "speaking");
  }

  /** Draw both voices and the wait, except just before the state may change, so that no frame delays the change. */
  draw() {
    if (this.over) return;
    const now = performance.now();
    if (!this.taking.unsettled) this.settledMs = now;
    if (this.wave.isDue(now) && !(now > this.settledMs && now - this.settledMs < LONGEST_HOLD_MS)) {
      this.wave.draw(this.taking.handovers);
      if (this.talking) this.drawWait();
    }
    requestAnimationFrame(() => this.draw());
  }

  drawWait() {
    const { waitsFrom, at, state } = this.taking;
    if (this.cards) this.cards.tick();
    else if (state === "thinking") this.latency.waits((at - waitsFrom) * BLOCK_MS);
  }

  commit() {
    super.commit();
    if (!this.committing.hidden) this.taking.commit();
  }

  receive(message) {
    super.receive(message);
    if (message.type === "turn") this.absence.missed(message);
    if (message.type === "failed") this.note({ about: "failure", urgent: true, text: message.message });
    else if (message.type === "levels") this.taking.open = message.replying;
    else if (message.type === "heard") this.showHeard();
    else if (this.cards && message.endpoint !== undefined) {
      if (message.type === "speech" && message.speaking) this.taking.confirm();
      if (message.failure && !this.cards.awaited) this.taking.fail();
    } else if (message.type === "state") {
      const text = message.failure && failureInWords(message.failure);
      this.note({ about: "endpoint", urgent: true, text });
      this.talking = message.state === "talking";
      if (!this.talking) this.latency.waitEnds(false);
      this.element.dataset.stage = this.talking ? this.taking.state : message.state;
      this.state.textContent = BEFORE_AND_AFTER[message.state] ?? "";
    } else this.shown.receive(message);
  }

  /** Show scores as badges. */
  scored() {}

  fullScreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else document.documentElement.requestFullscreen();
  }

  stored(message) {
    super.stored(message);
    const summary = make(
      "section",
      { class: "stage-summary", "aria-label": "Summary" },
      make("h2", {}, "The conversation"),
      message.runs ? next(message) : this.inOne(message),
      make("p", {}, button("New conversation", () => this.close())),
    );
    this.captions.before(summary);
    this.shown.conclude();
    if (this.cards) this.endpoint.textContent = "";
    this.element.dataset.stage = "over";
    this.state.textContent = "ended";
    announce("The conversation has ended.");
    summary.querySelector("a, button").focus({ preventScroll: true });
    this.element.scrollIntoView();
    this.log.scrollTop = this.log.scrollHeight;
  }

  inOne({ run }) {
    const { turns, failed } = this.latency;
    const count = turns.size + failed.size;
    const words = [...new Set(failed.values())].join(" or ");
    return [
      make("p", {}, `${counted(count, "turn")}${failed.size ? `, ${failed.size} ${words}` : ""}`),
      make("p", { class: "stage-links" }, make("a", { href: `#/runs/${run}` }, "Open the run")),
    ];
  }

  close() {
    this.leave();
    this.element.remove();
  }

  end() {
    super.end();
    this.leave();
  }

  lost(why) {
    this.element.dataset.stage = "disconnected";
    this.state.textContent = BEFORE_AND_AFTER.disconnected;
    this.note({ about: "endpoint", urgent: true, text: why });
    this.warnings.append(button("New conversation", () => this.close()));
    super.lost(why);
  }

  leave() {
    super.leave();
    this.absence.close();
    this.over = true;
    this.wave.close();
    if (document.fullscreenElement) document.exitFullscreen();
  }
}

/** What follows a conversation with several endpoints, whose cards are the summary. */
function next({ runs, votes }) {
  const spoken = runs.filter(({ turns }) => turns);
  const compare = `#/compare/${spoken.map(({ run }) => run).join("/")}?common=1`;
  const link = make("a", { href: compare }, "Compare the replies");
  const counts = runs.map((run) => `${run.endpoint}: ${counted(run.turns, "turn")}, ${counted(run.votes, "vote")}`);
  return [
    make("p", {}, counts.join(" · ")),
    make("p", { class: "stage-links" }, spoken.length > 1 ? link : "Fewer than two endpoints have replied."),
    votes && make("p", { class: "note" }, "Votes for the arena: ", make("code", {}, votes)),
  ];
}
