// Several endpoints of one conversation, side by side: state, latency, scores and votes of each.
import { announce, button, fill, make } from "./web/elements.js";
import { counted, failureInWords } from "./web/format.js";
import { StageEndpoint } from "./stage_endpoint.js";
import { BLOCK_MS } from "./stage_voices.js";

const ALL = null; // the endpoints are heard one after the other
const WAITS = ["thinking", "speaking"];
const TURNS = ["listening", ...WAITS];

export class EndpointCards {
  /**
   * @param {string[]} labels Names, or letters if the names are hidden.
   * @param {Array<{name: string, missing: ?string}>} judges
   * @param {boolean} manual Whether the user ends turns by a command.
   * @param {object} levelRule The studio's rule by which a voice is audible.
   * @param {function} ask Sends a command to the studio.
   */
  constructor(labels, judges, manual, levelRule, ask) {
    this.ask = ask;
    this.heard = 0;
    this.votes = false; // whether the next digit is a vote
    this.cards = labels.map((label, place) => new Card(label, place, judges, manual, levelRule, ask));
    this.all = button("All in turn", () => this.hear(ALL), { "aria-pressed": "false", "aria-keyshortcuts": "0" });
    this.tie = button("Tie", () => this.vote(null), { "aria-keyshortcuts": "v 0" });
    this.voted = make("p", { class: "note", role: "status" });
    this.element = make(
      "section",
      { class: "endpoint-cards", "aria-label": "Endpoints" },
      make("ol", {}, this.cards.map(({ element }) => element)),
      make("div", { class: "talk-controls" }, this.all, this.tie, this.voted),
    );
    this.choose(0);
  }

  /** Keys of several endpoints, as text. */
  get keys() {
    return `1 to ${this.cards.length} choose whom the room hears, 0 all in turn; V and 1 to ${this.cards.length} vote, V and 0 is a tie.`;
  }

  /** Handle a key; return whether it is one of ours. */
  press(key) {
    const place = key === "0" ? ALL : Number(key) - 1;
    const votes = this.votes;
    this.votes = key === "v";
    if (key === "v") return true;
    if (!/^[0-4]$/.test(key) || place >= this.cards.length) return false;
    if (votes) this.vote(place);
    else this.hear(place);
    return true;
  }

  hear(place) {
    this.ask({ type: "hear", endpoint: place });
  }

  vote(place) {
    this.ask({ type: "vote", endpoint: place });
  }

  /** Show whom the room hears. */
  choose(place) {
    this.heard = place;
    for (const [index, card] of this.cards.entries()) card.isHeard(place === ALL || place === index);
    this.all.setAttribute("aria-pressed", String(place === ALL));
  }

  /** The endpoint that the room hears, in words. */
  get heardInWords() {
    return this.heard === ALL ? "all in turn" : `you hear ${this.cards[this.heard].label}`;
  }

  /** Whether an endpoint that the room hears thinks or speaks. */
  get awaited() {
    return this.cards.some(({ state }, place) => [ALL, place].includes(this.heard) && WAITS.includes(state));
  }

  /** Whether an endpoint is missing. */
  get incomplete() {
    return this.cards.some(({ missing }) => missing);
  }

  /** Show a message from the studio. */
  receive(message) {
    const card = this.cards[message.endpoint];
    if (message.type === "heard") this.choose(message.endpoint);
    else if (message.type === "vote") this.count(message);
    else card?.receive(message);
  }

  count({ number, winner, wins }) {
    for (const [place, card] of this.cards.entries()) card.won(wins[place], number !== null && place === winner);
    const whose = winner === null ? "a tie" : this.cards[winner].label;
    this.voted.textContent =
      number === null ? "No vote: at least two replies are required, including the winner's." : `Turn ${number}: ${whose}.`;
    announce(this.voted.textContent);
  }

  /** Add the levels of 10 ms of the user's voice and of the reply that the room hears. */
  follow(user, reply) {
    for (const [place, card] of this.cards.entries()) card.follow(user, place === this.heard ? reply : null);
  }

  /** The user has ended a manual turn. */
  commit() {
    for (const { taking } of this.cards) taking.commit();
  }

  /** Draw the waiting time of each endpoint. */
  tick() {
    for (const card of this.cards) card.tick();
  }

  /** The conversation has ended: show the names, medians and winners. */
  reveal(runs) {
    const most = Math.max(1, ...runs.map(({ votes }) => votes));
    for (const [place, run] of runs.entries()) this.cards[place].reveal(run, run.votes === most);
    this.element.querySelectorAll("button").forEach((each) => each.remove());
    this.voted.remove();
  }
}

/** One endpoint. */
class Card {
  constructor(label, place, judges, manual, levelRule, ask) {
    this.label = label;
    this.shown = new StageEndpoint(levelRule);
    this.shown.begin(judges, manual);
    this.taking = this.shown.taking;
    this.latency = this.shown.latency;
    this.state = this.reported = "starting";
    this.missing = false;
    this.lamp = make("span", { class: "endpoint-lamp" }, "connecting …");
    this.votes = make("span", { class: "endpoint-votes" });
    this.why = make("p", { class: "failure endpoint-why", hidden: true });
    this.name = make("h2", {}, label);
    this.choosing = button(place + 1, () => ask({ type: "hear", endpoint: place }), {
      "aria-label": `Hear ${label}`,
      "aria-keyshortcuts": place + 1,
    });
    const vote = button("Vote", () => ask({ type: "vote", endpoint: place }), {
      "aria-label": `Vote for ${label}`,
      "aria-keyshortcuts": `v ${place + 1}`,
    });
    this.element = make(
      "li",
      { class: "endpoint-card", "data-endpoint": place, "data-turn": "starting" },
      make("header", {}, this.choosing, this.name, this.votes, vote, this.lamp),
      this.why,
      this.latency.element,
      this.shown.scores.element,
    );
  }

  isHeard(heard) {
    this.element.toggleAttribute("data-heard", heard);
    this.choosing.setAttribute("aria-pressed", String(heard));
  }

  receive(message) {
    if (message.type === "standing") this.stands(message.state);
    else if (message.type === "state") this.showFailure(message);
    else this.shown.receive(message);
  }

  /** The studio reports the state; while the endpoint is connected, the page's analysis precedes it. */
  stands(state) {
    this.reported = state;
    this.taking.open = state === "speaking";
    this.show(this.analysed ? this.taking.state : state);
  }

  /** Whether the state follows from the sound in the page. */
  get analysed() {
    return this.taking.at > 0 && TURNS.includes(this.reported);
  }

  /** Add the levels of 10 ms of both voices; null if the room does not hear the endpoint. */
  follow(user, reply) {
    if (this.taking.hear(user, reply) && this.analysed) this.show(this.taking.state);
  }

  show(state) {
    if (state === this.state) return;
    if (state === "thinking") this.since = performance.now() - this.waited;
    else if (this.state === "thinking") this.latency.waitEnds(state === "speaking");
    this.state = state;
    this.element.dataset.turn = state;
    this.lamp.textContent = state;
  }

  /** The time since the end of the user's speech in ms, 0 if unknown. */
  get waited() {
    const { waitsFrom, at } = this.taking;
    return waitsFrom === null ? 0 : (at - waitsFrom) * BLOCK_MS;
  }

  showFailure({ state, failure }) {
    if (state === "ended" && this.missing) return;
    this.missing = Boolean(failure);
    this.why.hidden = !failure;
    if (failure) this.why.textContent = failureInWords(failure);
  }

  tick() {
    if (this.state === "thinking") this.latency.waits(performance.now() - this.since);
  }

  won(count, latest) {
    this.votes.textContent = count ? `★ ${count}` : "";
    this.votes.title = counted(count, "vote");
    this.element.toggleAttribute("data-won", latest);
  }

  reveal({ run, name, endpoint, label, failure }, wins) {
    this.isHeard(false);
    this.shown.conclude();
    this.element.toggleAttribute("data-won", wins);
    if (failure) this.why.textContent = failure;
    fill(this.name, label === endpoint ? "" : `${label}: `, make("a", { href: `#/runs/${run}`, title: name }, endpoint));
    this.lamp.hidden = !this.missing;
  }
}
