// The form to choose an endpoint.
import { choice, fill, make } from "./web/elements.js";
import { words } from "./web/format.js";

/** The choice of an endpoint. */
export class Setup {
  constructor(endpoints, usual, start) {
    this.endpoints = endpoints;
    this.model = make("input", { name: "model", autocomplete: "off" });
    this.needs = make("p", { class: "note" });
    this.modes = make("div");
    const options = endpoints.map(({ name, missing, needs_base_url: url }) => [
      name,
      `${name}${missing ? ` (missing: ${missing})` : url ? " (needs an address)" : ""}`,
    ]);
    const first = endpoints.find(({ name }) => name === usual) ?? endpoints[0];
    this.element = make(
      "form",
      { class: "talk-setup", submit: (event) => (event.preventDefault(), start(this.request())) },
      make(
        "fieldset",
        {},
        make("legend", {}, "Endpoint"),
        choice("Endpoint", "endpoint", options, first.name, (name) => this.choose(name)),
        this.modes,
        make("label", {}, "Model", this.model),
        make("button", { class: "talk-start" }, "Start"),
      ),
      this.needs,
      make(
        "p",
        { class: "note" },
        "Wear headphones: a microphone that hears the reply interrupts it. The conversation is recorded as a run.",
      ),
    );
    this.choose(first.name);
  }

  choose(name) {
    this.endpoint = this.endpoints.find((each) => each.name === name);
    const { turn_modes: modes, missing, needs_base_url: url, model, base_url: own, title } = this.endpoint;
    this.mode = modes[0];
    fill(
      this.modes,
      choice(
        "Turns end by",
        "mode",
        modes.map((mode) => [mode, words(mode)]),
        this.mode,
        (mode) => (this.mode = mode),
      ),
    );
    this.model.value = "";
    this.model.placeholder = model ?? "";
    this.needs.textContent = url
      ? `${title}: start the studio with --endpoint ${name}=URL.`
      : missing
        ? `${title}: ${missing} is missing on the studio's machine; an endpoint on this machine needs none.`
        : `${title}: ${own ?? "started by the studio"}`;
  }

  request() {
    const given = {
      name: this.endpoint.name,
      model: this.model.value.trim(),
    };
    const endpoint = Object.fromEntries(Object.entries(given).filter(([, value]) => value));
    return { endpoint, turns: { mode: this.mode } };
  }

  /** Hide the form during a conversation. */
  hide(hidden) {
    this.element.hidden = hidden;
  }
}
