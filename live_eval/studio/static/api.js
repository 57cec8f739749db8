// Requests to the studio's JSON API.

const OWN_PAGE = { "X-Live-Eval-Page": "1" }; // see live_eval.studio.answers

/** An error from the studio, or a missing response. For `kind`, see live_eval.studio.answers, or "unreachable". */
export class StudioError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

/** Return the path of a request, with each part escaped because turn IDs contain slashes. */
export function path(...parts) {
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

/** Add a query to a path, without null, undefined, false and empty parameters; a list repeats its parameter. */
export function withQuery(address, query) {
  const given = Object.entries(query)
    .flatMap(([name, value]) => [value].flat().map((each) => [name, each]))
    .filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "");
  const text = new URLSearchParams(
    given.map(([name, value]) => [name, value === true ? "1" : String(value)]),
  ).toString();
  return text ? `${address}?${text}` : address;
}

/**
 * Fetch the JSON at an address.
 *
 * @param {string} address
 * @param {{query?: object, signal?: AbortSignal}} [options]
 * @throws {StudioError} with the server's message.
 */
export async function read(address, { query = {}, signal } = {}) {
  return send(withQuery(address, query), { signal });
}

/** Post JSON, and return the JSON of the response; see `read`. */
export async function post(address, body, { signal } = {}) {
  return send(address, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
}

async function send(address, { headers = {}, ...options }) {
  let response;
  try {
    response = await fetch(address, { headers: { ...headers, ...OWN_PAGE }, ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new StudioError("unreachable", "The studio does not respond. Is live-eval studio running?");
  }
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null && !answer.error) return answer;
  const { kind, message } = answer?.error ?? {
    kind: "http",
    message: `${response.status} ${response.statusText}`,
  };
  throw new StudioError(kind, message);
}
