// Listen to the replies of two runs without knowing which is which.
import { fill, make } from "./dom.js";

export async function show(place) {
  fill(
    place,
    make("h1", {}, "Listen"),
    make("p", {}, "Choose two runs and compare them to find turns that are worth hearing."),
  );
  return "Listen";
}
