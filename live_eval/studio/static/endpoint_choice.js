// Choose an endpoint, its model, and how turns end.
import { choice, fill, make } from "./web/elements.js";
import { words } from "./web/format.js";

export class EndpointChoice {
  /**
   * @param {object[]} endpoints Endpoints as listed by `GET /api/talk` and `GET /api/start`.
   * @param {string} usual Name of the preselected endpoint.
   * @param {object} texts
   * @param {string} texts.missing Text after a missing requirement.
   * @param {string} texts.launched Text instead of an address for an endpoint that the studio launches.
   * @param {function} [changed] Called when the endpoint or the way in which turns end changes.
   */
  constructor(endpoints, usual, { missing, launched }, changed = () => {}) {
    Object.assign(this, { endpoints, texts: { missing, launched }, changed });
    this.model = make("input", { name: "model", autocomplete: "off" });
    this.needs = make("p", { class: "note" });
    this.modes = make("div");
    const options = endpoints.map(({ name, missing: what, needs_base_url: url }) => [
      name,
      `${name}${what ? ` (missing: ${what})` : url ? " (needs an address)" : ""}`,
    ]);
    const first = endpoints.find(({ name }) => name === usual) ?? endpoints[0];
    this.names = choice("Endpoint", "endpoint", options, first.name, (name) => {
      this.choose(name);
      this.changed();
    });
    this.choose(first.name);
  }

  choose(name) {
    this.endpoint = this.endpoints.find((each) => each.name === name);
    const { turn_modes: modes, missing, needs_base_url: url, model, base_url: own, title } = this.endpoint;
    this.mode = modes[0];
    const labelled = modes.map((mode) => [mode, words(mode)]);
    fill(
      this.modes,
      choice("Turns end by", "mode", labelled, this.mode, (mode) => {
        this.mode = mode;
        this.changed();
      }),
    );
    this.model.value = "";
    this.model.placeholder = model ?? "";
    this.needs.textContent = url
      ? `${title}: start the studio with --endpoint ${name}=URL.`
      : missing
        ? `${title}: ${missing} is missing on the studio's machine${this.texts.missing}.`
        : `${title}: ${own ?? this.texts.launched}`;
  }

  /** The default way in which turns end. */
  get usualMode() {
    return this.endpoint.turn_modes[0];
  }

  /** The chosen name and model, as a table of a run file. */
  get table() {
    const model = this.model.value.trim();
    return { name: this.endpoint.name, ...(model && { model }) };
  }
}
