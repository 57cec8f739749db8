// Draw plots from live_eval.report.plots: paths and dots over two axes.
import { make } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 400; // of the coordinate system for paths, whose width is 1000

/**
 * Make a plot with its legend.
 *
 * @param {object} chart `Plot` of live_eval.report.plots as JSON.
 * @param {string} hint Where to find the values as text.
 */
export function plot({ title, paths, dots, across_ticks: across, up_ticks: up, right_ticks: right, legend }, hint) {
  const svg = shape("svg", { viewBox: `0 0 1000 ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const lines = (right.length ? right : up).map(({ at }) => `M0 ${HEIGHT - at * 4}H1000`);
  lines.push(...across.map(({ at }) => `M${at * 10} 0V${HEIGHT}`));
  svg.append(shape("path", { class: "grid", d: lines.join("") }));
  svg.append(...paths.map(({ style, d }) => shape("path", { class: style, d })));
  const role = dots.some(({ href }) => href) ? "group" : "img";
  return [
    make("ul", { class: "legend" }, legend.map(({ text, run }) => make("li", {}, make("i", { class: `swatch c${run}` }), text))),
    make(
      "div",
      { class: "plot", role, "aria-label": `${title}; ${hint}` },
      up.map(({ at, label }) => placed(make("span", { class: "level" }, label), { bottom: at })),
      right.map(({ at, label }) => placed(make("span", { class: "level right" }, label), { bottom: at })),
      svg,
      dots.map(({ style, across: left, up: bottom, title: name, href }) => {
        const dot = href ? make("a", { class: style, href, title: name, "aria-label": name }) : make("i", { class: style, title: name });
        return placed(dot, { left, bottom });
      }),
      across.map(({ at, label }) => placed(make("span", { class: "tick" }, label), { left: at })),
    ),
  ];
}

function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** Set positions in percent by script, because the studio's policy forbids the attribute `style`. */
function placed(element, positions) {
  for (const [side, percent] of Object.entries(positions)) element.style[side] = `${percent}%`;
  return element;
}
