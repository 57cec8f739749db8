// The form to choose an endpoint.
import { EndpointChoice } from "./endpoint_choice.js";
import { make } from "./web/elements.js";

/** The choice of an endpoint. */
export class Setup {
  constructor(endpoints, usual, start) {
    this.chosen = new EndpointChoice(endpoints, usual, {
      missing: "; an endpoint on this machine needs none",
      launched: "started by the studio",
    });
    const { names, modes, model, needs } = this.chosen;
    this.element = make(
      "form",
      { class: "talk-setup", submit: (event) => (event.preventDefault(), start(this.request())) },
      make(
        "fieldset",
        {},
        make("legend", {}, "Endpoint"),
        names,
        modes,
        make("label", {}, "Model", model),
        make("button", { class: "talk-start" }, "Start"),
      ),
      needs,
      make(
        "p",
        { class: "note" },
        "Wear headphones: a microphone that hears the reply interrupts it. The conversation is recorded as a run.",
      ),
    );
  }

  request() {
    return { endpoint: this.chosen.table, turns: { mode: this.chosen.mode } };
  }

  /** Hide the form during a conversation. */
  hide(hidden) {
    this.element.hidden = hidden;
  }
}
