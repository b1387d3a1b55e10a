// Questions to the gate. When the files were closed meanwhile they are opened again, once.
import { forget, ticket } from "../ticket.js";
import { box, say, text } from "./dom.js";

const WAIT_MS = 700;
const SLOW_MS = 30_000; // then the page says that it takes long
const ANSWER_MS = 15_000; // what starts or ends meanwhile may have lost who asked first
const SESSION_TRIES = 5;
const BUSY_MS = [1000, 2000, 4000, 8000, 15_000];
const way = () => `volumes/${box.dataset.volume}`; // a page may learn it late
let base = "";

export class Refused extends Error {
  constructor(said, status) {
    super(said.code && text(`code:${said.code}`) !== `code:${said.code}` ? text(`code:${said.code}`) : said.detail || text("lost"));
    this.code = said.code ?? "";
    this.status = status;
    this.said = said;
  }
}

const lost = () => new Refused({ code: "lost", detail: text("lost") }, 0);

const spelled = (act, query = {}) => `${act}?${new URLSearchParams(query)}`;
// A link leads to the portal, which leads to the gate with a ticket.
export const link = (act, query) => `/tickets/${way()}/${spelled(act, query)}`;
const address = async (act, query = {}) => `${base}/${spelled(act, { ...query, ticket: await ticket(way()) })}`;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Asked again when no answer comes: to open twice is to open once.
async function session(method, wait) {
  for (let tries = 1; ; tries += 1) {
    try {
      const answer = await fetch(box.dataset.session, {
        method,
        headers: { "X-CSRFToken": box.dataset.csrf, Accept: "application/json" },
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      const said = await answer.json().catch(() => ({}));
      if (answer.ok) return said;
      throw new Refused(said, answer.status);
    } catch (error) {
      if (error instanceof Refused) throw error;
      if (tries >= SESSION_TRIES) throw lost();
    }
    wait();
    await pause(WAIT_MS);
  }
}

// On one machine the gate itself may be starting.
async function info(wait) {
  for (let tries = 0; ; tries += 1) {
    try {
      const answer = await fetch(await address("info"), { signal: AbortSignal.timeout(ANSWER_MS) });
      if (answer.ok) return await answer.json();
      if (tries > 30) throw new Refused(await answer.json().catch(() => ({})), answer.status);
    } catch (error) {
      if (error instanceof Refused) throw error;
      if (tries > 60) throw lost();
    }
    wait();
    await pause(WAIT_MS);
  }
}

// Opens the files and returns when they can be asked; ``told`` hears why it takes a while.
export async function open(told = () => {}) {
  const began = Date.now();
  const wait = (why = "") => told(why || (Date.now() - began > SLOW_MS ? text("slow") : ""));
  let said = await session("POST", wait);
  base = said.url;
  while (!said.is_open) {
    if (said.phase === "failed" || said.phase === "stopped") {
      throw new Error(text("failed", { why: said.message }));
    }
    wait(said.message);
    await pause(WAIT_MS);
    said = await session("GET", wait);
    if (said.phase === "closed") said = await session("POST", wait);
  }
  return { ...said, ...(await info(wait)) };
}

// Whatever is asked waits meanwhile, so what it waits for is said.
let reopening = null;
function reopen() {
  say(text("opening"));
  const told = (why) => say(why ? text("waiting", { why }) : text("opening"));
  reopening ??= open(told).finally(() => {
    reopening = null;
    say("");
  });
  return reopening;
}

async function once(act, { query, ...options } = {}) {
  let answer;
  try {
    answer = await fetch(await address(act, query), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw lost();
  }
  if (answer.ok) return answer;
  if (answer.status === 401) forget(way());
  throw new Refused(await answer.json().catch(() => ({})), answer.status);
}

async function opened(act, options) {
  try {
    return await once(act, options);
  } catch (error) {
    if (!["files-closed", "files-away"].includes(error.code)) throw error;
    await reopen();
    return once(act, options);
  }
}

// Where too much is asked at once nothing was done yet: it is asked again, not all in one moment.
export async function ask(act, options) {
  for (const ms of BUSY_MS) {
    try {
      return await opened(act, options);
    } catch (error) {
      if (error.code !== "busy") throw error;
      say(text("busy"));
      await pause(ms * (0.5 + Math.random()));
      options?.signal?.throwIfAborted();
      say("");
    }
  }
  return opened(act, options);
}

export const json = async (act, options) => (await ask(act, options)).json();

export const post = (act, body, options = {}) =>
  ask(act, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    ...options,
  });

export const postJson = async (act, body) => (await post(act, body)).json();

// Reads an answer of lines; ``each`` gets all but the last, which is returned.
export async function lines(answering, each = () => {}) {
  const reader = (await answering).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let last = null;
  const take = (line) => {
    const said = JSON.parse(line);
    if (said.error) throw new Refused(said.error, 0);
    if (said.done) last = said;
    else each(said);
  };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    rest += value;
    const parts = rest.split("\n");
    rest = parts.pop();
    parts.filter(Boolean).forEach(take);
  }
  if (!last) throw lost();
  return last;
}

// Sends a body and tells how far it is: fetch does not. Resolves with the answer's JSON.
export async function send(method, act, { query, body, headers = {}, progress, signal }) {
  const url = await address(act, query).catch(() => {
    throw lost();
  });
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted(); // what was never sent tells nothing of its end
    const request = new XMLHttpRequest();
    request.open(method, url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => progress?.(event.loaded));
    request.addEventListener("load", () => {
      let said = {};
      try {
        said = JSON.parse(request.responseText);
      } catch {
        // an answer of something in between
      }
      if (request.status === 401) forget(way());
      if (request.status < 300) resolve(said);
      else reject(new Refused(said, request.status));
    });
    const cut = () => reject(lost());
    request.addEventListener("error", cut);
    request.addEventListener("timeout", cut);
    request.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
    signal?.addEventListener("abort", () => request.abort(), { once: true });
    request.send(body);
  });
}
