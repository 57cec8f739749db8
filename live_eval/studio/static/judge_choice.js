// Choose judges; judges that cannot run on the studio's machine are marked.
import { make } from "./web/elements.js";

export class JudgeChoice {
  /**
   * @param {Array<{name: string, title: string, missing: ?string, usual: ?boolean}>} judges
   * @param {string} none Summary before a choice is made.
   * @param {function} [changed]
   * @param {boolean} [disables] Whether judges that cannot run are disabled.
   */
  constructor(judges, none, changed = () => {}, disables = true) {
    this.names = null; // null until a choice is made
    const boxes = judges.map(({ name, title, missing, usual }) =>
      make(
        "label",
        { title: missing ? `missing: ${missing}` : title },
        make("input", {
          type: "checkbox",
          name: "judge",
          value: name,
          checked: usual && !missing,
          disabled: disables && Boolean(missing),
          change: () => this.choose(changed),
        }),
        ` ${name}`,
        missing && make("small", {}, disables ? " (not available)" : ` (missing: ${missing})`),
      ),
    );
    this.boxes = make("div", { class: "choices" }, boxes);
    this.summary = make("summary", {}, `Judges: ${none}`);
    this.element = make("details", {}, this.summary, this.boxes);
  }

  choose(changed) {
    const boxes = [...this.boxes.querySelectorAll("input")];
    this.names = boxes.filter((box) => box.checked).map((box) => box.value);
    this.summary.textContent = `Judges: ${this.names.join(", ") || "none"}`;
    changed();
  }
}
