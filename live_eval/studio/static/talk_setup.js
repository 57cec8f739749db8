// Choose one or several endpoints, devices and judges in a form.
import { EndpointChoice } from "./endpoint_choice.js";
import { JudgeChoice } from "./judge_choice.js";
import { DeviceChoice } from "./talk_devices.js";
import { button, make } from "./web/elements.js";

const MOST_ENDPOINTS = 4;
const TEXTS = { missing: "; an endpoint on this machine does not need it", launched: "started by the studio" };

/** The form of a further endpoint; how turns end is chosen once for all. */
class FurtherEndpoint {
  constructor(endpoints, usual, remove) {
    this.chosen = new EndpointChoice(endpoints, usual, TEXTS);
    const { names, model, needs } = this.chosen;
    this.voice = voiceInput();
    this.element = make(
      "fieldset",
      {},
      make("legend", {}, "Another endpoint"),
      names,
      make("label", {}, "Model", model),
      make("label", {}, "Voice", this.voice),
      button("Remove", () => remove(this)),
      needs,
    );
  }
}

const voiceInput = () =>
  make("input", { name: "voice", autocomplete: "off", placeholder: "default" });

/** The form before a conversation. */
export class Setup {
  constructor({ endpoints, default: usual, judges }, start) {
    this.judges = new JudgeChoice(judges, "none", undefined, false);
    this.chosen = new EndpointChoice(endpoints, usual, TEXTS);
    this.further = [];
    this.addFurther = () => this.add(new FurtherEndpoint(endpoints, usual, (one) => this.remove(one)));
    const { names, modes, model, needs } = this.chosen;
    this.devices = new DeviceChoice();
    this.voice = voiceInput();
    this.prompt = make("textarea", { name: "prompt", rows: 2, placeholder: "none" });
    this.halfDuplex = make("input", { type: "checkbox", name: "half_duplex" });
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
      (this.several = this.offerSeveral()),
      this.devices.element,
      this.judges.element,
      make(
        "div",
        {},
        make("p", { class: "choices" }, make("label", {}, this.halfDuplex, " Mute during replies")),
        make(
          "p",
          { class: "note" },
          "Wear headphones, or mute the microphone during replies: if it picks up the reply, the reply is interrupted. The conversation is recorded as a run.",
        ),
      ),
    );
  }

  /** Make the choice of further endpoints that hear the same microphone. */
  offerSeveral() {
    this.blind = make("input", { type: "checkbox", name: "blind" });
    this.hiding = make("label", { hidden: true }, this.blind, " Hide the names until the end");
    this.adding = button("Add an endpoint", () => this.addFurther());
    this.places = make("div");
    return make("div", {}, this.places, make("p", { class: "choices" }, this.adding, this.hiding));
  }

  add(further) {
    this.further.push(further);
    this.places.append(further.element);
    this.offerMore();
    further.element.querySelector("select").focus();
  }

  remove(further) {
    this.further = this.further.filter((each) => each !== further);
    further.element.remove();
    this.offerMore();
    this.adding.focus();
  }

  offerMore() {
    this.adding.hidden = this.further.length >= MOST_ENDPOINTS - 1;
    this.hiding.hidden = !this.further.length;
  }

  request() {
    const { names } = this.judges;
    const instructions = this.prompt.value.trim();
    const table = ({ chosen, voice: { value } }) => ({
      ...chosen.table,
      ...(value.trim() && { voice: value.trim() }),
      ...(instructions && { instructions }),
    });
    this.devices.stop();
    return {
      endpoint: table(this),
      ...(this.further.length && { more_endpoints: this.further.map(table), blind: this.blind.checked }),
      turns: { mode: this.chosen.mode },
      judges: names ? { names } : {},
      half_duplex: this.halfDuplex.checked,
    };
  }

  /** Hide the form during a conversation, which shows the devices. */
  hide(hidden) {
    if (!hidden) this.judges.element.before(this.devices.element);
    this.element.hidden = hidden;
  }
}
