// Talk to an endpoint from the browser.
import { fill, make } from "./dom.js";

export async function show(place) {
  fill(
    place,
    make("h1", {}, "Talk"),
    make(
      "p",
      {},
      "live-eval live talks to an endpoint from the terminal; its conversations are listed among the runs.",
    ),
  );
  return "Talk";
}
