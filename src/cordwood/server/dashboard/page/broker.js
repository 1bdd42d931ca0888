// Asking the broker. Every request carries the token, if there is one; a refusal is an error with the broker's sentence.
import {alone} from "./loads.js";

const KEY = "cordwood-token";
const QUIET_MS = 6000; // a live stream that says nothing for so long is taken for dead
const FIRST_MS = 500;
const MOST_MS = 8000;

// The broker answered, and refused.
export class Refused extends Error {
  constructor(status, body) {
    super(body.message || `The broker answered with status ${status}.`);
    this.status = status;
  }
}

// The broker did not answer.
export class Gone extends Error {}

let token = null;
try { token = sessionStorage.getItem(KEY); } catch { /* then it is asked for */ }
let unauthenticated = () => {};

export const hasToken = () => Boolean(token);
export const onUnauthenticated = (call) => { unauthenticated = call; };

export function useToken(value) {
  token = value || null;
  try { if (token) sessionStorage.setItem(KEY, token); else sessionStorage.removeItem(KEY); } catch { /* kept until the page is closed */ }
}

export const segment = encodeURIComponent;

// Return the response, once its head is there; throw Refused or Gone.
export async function request(method, path, {query = {}, body, accept = "application/json", signal} = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const target = path + (given.length ? `?${new URLSearchParams(given)}` : "");
  const headers = {Accept: accept};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(target, {method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", credentials: "omit"});
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Gone("The broker does not answer.");
  }
  if (answer.ok) return answer;
  const found = await answer.json().catch(() => ({}));
  if (answer.status === 401) unauthenticated();
  throw new Refused(answer.status, found);
}

async function ask(method, path, options) {
  const answer = await request(method, path, options);
  if (answer.status === 204) return null;
  try { return await answer.json(); } catch { throw new Gone("The broker's answer was cut short."); }
}

export const get = (path, query, signal) => ask("GET", path, {query, signal});
export const change = (method, path, body) => alone(() => ask(method, path, {body}));

// Yield the lines of a stream as arrays, each as many as came together.
export async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      const found = (rest + value).split("\n");
      rest = found.pop();
      if (found.length) yield found;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// The live stream, taken up again whenever it breaks. `heard(snapshot)`; `changed(state, error)` with connecting, live,
// lost, token or refused. Not an EventSource, because that cannot send a token.
export class Live {
  constructor(heard, changed) {
    this.heard = heard;
    this.changed = changed;
    this.wait = FIRST_MS;
  }

  get busy() {
    return Boolean(this.control);
  }

  // Begin, or begin again at once.
  async start() {
    this.stop();
    const control = this.control = new AbortController();
    let quiet;
    const listen = () => { clearTimeout(quiet); quiet = setTimeout(() => control.abort(), QUIET_MS); };
    let failure = new Gone("The broker ended the stream.");
    try {
      listen();
      const answer = await request("GET", "/v1/live", {accept: "text/event-stream", signal: control.signal});
      for await (const found of lines(answer)) {
        listen();
        const last = found.findLast((line) => line.startsWith("data: "));
        if (last) {
          this.wait = FIRST_MS;
          this.changed("live");
          this.heard(JSON.parse(last.slice(6)));
        }
      }
    } catch (error) {
      failure = error;
    }
    clearTimeout(quiet);
    if (this.control !== control) return; // stopped, or begun again, meanwhile
    if (failure instanceof Refused && [401, 403].includes(failure.status)) {
      this.changed(failure.status === 401 ? "token" : "refused", failure);
      return;
    }
    this.changed("lost", failure);
    this.timer = setTimeout(() => this.start(), this.wait * (0.75 + Math.random() / 2));
    this.wait = Math.min(MOST_MS, this.wait * 2);
  }

  stop() {
    clearTimeout(this.timer);
    const control = this.control;
    this.control = null;
    control?.abort();
  }
}
