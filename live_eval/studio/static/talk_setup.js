// The form to choose an endpoint and judges.
import { EndpointChoice } from "./endpoint_choice.js";
import { JudgeChoice } from "./judge_choice.js";
import { make } from "./web/elements.js";

/** The choices before a conversation. */
export class Setup {
  constructor(endpoints, usual, judges, start) {
    this.judges = new JudgeChoice(judges, "none", undefined, false);
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
      this.judges.element,
      make(
        "p",
        { class: "note" },
        "Wear headphones: a microphone that hears the reply interrupts it. The conversation is recorded as a run.",
      ),
    );
  }

  request() {
    const { names } = this.judges;
    return {
      endpoint: this.chosen.table,
      turns: { mode: this.chosen.mode },
      judges: names ? { names } : {},
    };
  }

  /** Hide the form during a conversation. */
  hide(hidden) {
    this.element.hidden = hidden;
  }
}
