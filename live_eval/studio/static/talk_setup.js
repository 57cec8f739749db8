// Choose an endpoint, devices and judges in a form.
import { EndpointChoice } from "./endpoint_choice.js";
import { JudgeChoice } from "./judge_choice.js";
import { DeviceChoice } from "./talk_devices.js";
import { make } from "./web/elements.js";

/** The form before a conversation. */
export class Setup {
  constructor({ endpoints, default: usual, judges }, start) {
    this.judges = new JudgeChoice(judges, "none", undefined, false);
    this.chosen = new EndpointChoice(endpoints, usual, {
      missing: "; an endpoint on this machine does not need it",
      launched: "started by the studio",
    });
    const { names, modes, model, needs } = this.chosen;
    this.devices = new DeviceChoice();
    this.voice = make("input", { name: "voice", autocomplete: "off", placeholder: "the endpoint's default" });
    this.prompt = make("textarea", { name: "prompt", rows: 2, placeholder: "none" });
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
        make("label", {}, "Voice", this.voice),
        make("label", {}, "Prompt", this.prompt),
        make("button", { class: "talk-start" }, "Start"),
      ),
      needs,
      this.devices.element,
      this.judges.element,
      make(
        "p",
        { class: "note" },
        "Wear headphones: if the microphone picks up the reply, the reply is interrupted. The conversation is recorded as a run.",
      ),
    );
  }

  request() {
    const { names } = this.judges;
    const [voice, instructions] = [this.voice, this.prompt].map(({ value }) => value.trim());
    this.devices.stop();
    return {
      endpoint: { ...this.chosen.table, ...(voice && { voice }), ...(instructions && { instructions }) },
      turns: { mode: this.chosen.mode },
      judges: names ? { names } : {},
    };
  }

  /** Hide the form during a conversation. */
  hide(hidden) {
    this.element.hidden = hidden;
  }
}
