// Talk to an endpoint with the browser's microphone, with levels, transcript, and the latencies of each turn.
import { read } from "./api.js";
import { fill, make, problem } from "./web/elements.js";
import { failureInWords } from "./web/format.js";
import { connect } from "./talk_connection.js";
import { Conversation } from "./talk_conversation.js";
import { Setup } from "./talk_setup.js";

const LEAD =
  "Shows a conversation to the person who speaks: levels, transcript and all latencies of each turn. Stage shows it to an audience.";

/** Return the text for each state of a conversation. */
const inWords = (endpoint, performs) => ({
  idle: "",
  opening: "opening the microphone …",
  launching: `starting ${endpoint}; loading its models takes some seconds …`,
  starting: `connecting to ${endpoint} …`,
  recording: "your turn: say the script",
  checking: "checking the take …",
  checked: "accept or repeat the take",
  talking: performs ? "streaming the take …" : `${endpoint} ${endpoint.startsWith("the ") ? "are" : "is"} ready: speak`,
  disconnected: "disconnected",
  scoring: "waiting for scores; End again to skip them",
  ended: "ended; the run is being stored …",
  stored: "ended",
});

export const show = (place, view) => showTalk(place, view, { title: "Talk", lead: LEAD }, Conversation);

/** Fill a view with a form and, after its submission, with a conversation displayed by `Shown`. */
export async function showTalk(place, { signal }, { title, lead }, Shown, Chosen = Setup, choices = "/api/talk") {
  const talk = new Talk(await read(choices, { signal }), Shown, Chosen);
  fill(place, make("h1", {}, title), make("p", { class: "note talk-lead" }, lead), talk.element);
  signal.addEventListener("abort", () => {
    talk.leave();
    talk.conversation?.leave();
  });
  addEventListener("pagehide", () => talk.leave(), { signal });
  addEventListener("keydown", (event) => talk.key(event), { signal });
  return title;
}

/** The view: first the form, then the conversation. */
class Talk {
  constructor(choices, Shown, Chosen) {
    const { taken } = choices;
    this.Shown = Shown;
    this.levelRule = choices.level_rule;
    this.connection = null;
    this.setup = new Chosen(choices, (request) => this.start(request));
    this.state = make("p", { class: "talk-state", role: "status", "data-state": "idle" });
    this.alert = make(
      "div",
      { class: "talk-alert" },
      taken && make("p", { class: "note" }, "Another tab is connected: end its conversation first."),
    );
    this.place = make("div");
    this.element = make("div", { class: "talk" }, this.setup.element, this.state, this.alert, this.place);
  }

  async start(request) {
    if (this.connection) return;
    this.failure = null;
    this.endpoint = request.more_endpoints ? "the endpoints" : request.endpoint.name;
    this.performs = Boolean(request.perform);
    fill(this.alert);
    this.show("opening");
    this.setup.hide(true);
    const leaving = new AbortController();
    this.connection = { send() {}, close: () => leaving.abort() }; // replaced once the page is connected
    this.conversation = new this.Shown((message) => this.ask(message), request, this.levelRule);
    fill(this.place, this.conversation.element);
    this.conversation.controls.after(this.setup.devices.element);
    this.conversation.element.focus();
    try {
      const on = {
        received: (message) => this.receive(message),
        lost: (why) => this.lost(why),
        microphone: (stream) => this.conversation.hears(stream),
      };
      const connection = await connect(request, this.setup.devices, on, leaving.signal);
      this.connection = connection;
      this.setup.devices.changed = (key) => this.change(key);
      this.conversation.began(connection.began, connection.streams);
    } catch (error) {
      if (leaving.signal.aborted) return;
      fill(this.place);
      this.conversation.leave();
      this.over("idle", error);
    }
  }

  /** Switch to the chosen microphone or loudspeaker. */
  async change(key) {
    const note = (text) => this.conversation.note({ about: "devices", urgent: true, text });
    try {
      await this.connection.change(key);
      note("");
    } catch (error) {
      note(error.message);
    }
  }

  /** Send a command to the studio. */
  ask(message) {
    this.connection?.send(message);
  }

  receive(message) {
    if (message.type === "state" && message.endpoint === undefined) {
      this.show(message.state);
      fill(
        this.alert,
        message.failure && problem({ message: failureInWords(message.failure) }),
      );
    } else if (message.type === "stored") {
      this.over("stored");
      this.conversation.stored(message);
      if (this.conversation.changing) this.again();
      return;
    } else if (message.type === "failed") {
      this.failure = message;
      fill(this.alert, problem(message));
    }
    this.conversation.receive(message);
  }

  show(state) {
    this.state.dataset.state = state;
    this.state.textContent = inWords(this.endpoint, this.performs)[state] ?? state;
  }

  lost(why) {
    this.over("stored", this.failure ?? { message: why });
    this.conversation.lost(this.failure?.message ?? why);
  }

  /** Return to the form after a conversation or a failed start. */
  over(state, error) {
    this.leave();
    this.setup.hide(false);
    this.show(state);
    if (error) fill(this.alert, problem(error));
  }

  /** Return to the settings of the conversation that has ended, to start another one. */
  again() {
    this.conversation.close?.();
    this.setup.element.scrollIntoView();
    this.setup.element.querySelector("select").focus();
  }

  leave() {
    this.setup.devices.stop();
    this.setup.devices.changed = null;
    this.connection?.close();
    this.connection = null;
  }

  key(event) {
    if (!this.connection || event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
    const typing = event.target.closest("input, textarea, select");
    const pressing = event.target.closest("button, a, summary");
    if (event.key === "Escape") this.ask({ type: "end" });
    else if (typing) return;
    else if (this.conversation.press(event.key.toLowerCase())) {
      // one of the keys of several endpoints, which no button uses
    } else if (pressing) return;
    else if (event.key === " ") this.conversation.mute();
    else if (event.key === "Enter") this.conversation.commit();
    else if (event.key.toLowerCase() === "f" && this.conversation.fullScreen) this.conversation.fullScreen();
    else return;
    event.preventDefault();
  }
}
