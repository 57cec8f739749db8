// Handle keys wherever the focus is, except in fields that use them.
import { button, make } from "./elements.js";

const FIELDS = "textarea, [contenteditable], input:not([type=button], [type=submit], [type=checkbox], [type=radio])";
const TYPED_MS = 1_000; // letters typed faster select an option
const SCROLLED = "[role=region], [role=slider], pre, iframe, nav";
const STORED = "live-eval-keys";

let areOn = null;

/** Return whether keys without a modifier are handled; the user can turn them off (WCAG 2.1.4). */
export function keysAreOn() {
  if (areOn === null) {
    try {
      areOn = localStorage.getItem(STORED) !== "off";
    } catch {
      areOn = true; // the page is not allowed to store anything
    }
  }
  return areOn;
}

/** Turn keys without a modifier on or off. */
export function turnKeys(on) {
  areOn = on;
  try {
    localStorage.setItem(STORED, on ? "on" : "off");
  } catch {
    // the choice then lasts until the page is closed
  }
}

/** Return whether a select element uses a key: arrows change it, and letters select the option that begins with them. */
function selects(select, key, at) {
  const typing = at - (typed.get(select) ?? -Infinity) < TYPED_MS;
  const finds = [...select.options].some(({ text }) => text.trim().toLowerCase().startsWith(key));
  if (key.length > 1) return true;
  if (!typing && !finds) return false;
  typed.set(select, at);
  return true;
}

const typed = new WeakMap();

/** List keys, each [key, meaning], with a button that turns them off. */
export function keyHelp(keys) {
  const label = () => (keysAreOn() ? "Turn these keys off" : "Turn these keys on");
  const change = button(label(), () => {
    turnKeys(!keysAreOn());
    change.textContent = label();
  });
  const list = keys.map(([key, meaning]) => make("li", {}, make("kbd", {}, key), ` ${meaning}`));
  return make("details", { class: "keys" }, make("summary", {}, "Keys (wherever the focus is)"), make("ul", {}, list), change);
}

/**
 * Handle keys until a signal is aborted.
 *
 * Space is handled even if a button or list has the focus; Enter presses the button, and Alt with an arrow opens the
 * list. Arrows still scroll a focused region.
 *
 * @param {object} keys Functions by `event.key`, letters in lower case.
 * @param {AbortSignal} signal
 */
export function answerAnywhere(keys, signal) {
  const wanted = (event) => {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (!Object.hasOwn(keys, key) || event.defaultPrevented || !keysAreOn()) return null;
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.(FIELDS)) return null;
    const select = event.target.closest?.("select");
    if (select && selects(select, key, event.timeStamp)) return null;
    if (key.startsWith("Arrow") && event.target.closest?.(SCROLLED)) return null;
    return keys[key];
  };
  const down = (event) => {
    const act = wanted(event);
    if (!act) return;
    event.preventDefault();
    if (!event.repeat || event.key.startsWith("Arrow")) act(event);
  };
  // Some browsers press a focused button when Space is released.
  const up = (event) => {
    if (event.key === " " && wanted(event)) event.preventDefault();
  };
  // After a choice with the mouse, arrows seek instead of changing the choice.
  let pointed = false;
  document.addEventListener("pointerdown", () => { pointed = true; }, { signal, capture: true });
  document.addEventListener("keydown", () => { pointed = false; }, { signal, capture: true });
  const leave = () => pointed && document.activeElement?.tagName === "SELECT" && document.activeElement.blur();
  document.addEventListener("change", leave, { signal });
  document.addEventListener("keydown", down, { signal });
  document.addEventListener("keyup", up, { signal });
}
