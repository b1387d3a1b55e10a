// Questions to the gate. When the files were closed meanwhile they are opened again, once.
import { box, text } from "./dom.js";

const WAIT_MS = 700;
let base = "";

export class Refused extends Error {
  constructor(said, status) {
    super(said.code && text(`code:${said.code}`) !== `code:${said.code}` ? text(`code:${said.code}`) : said.detail || text("lost"));
    this.code = said.code ?? "";
    this.status = status;
    this.said = said;
  }
}

export const address = (act, query = {}) => {
  const url = new URL(`${base}/${act}`);
  for (const [key, value] of Object.entries(query)) url.searchParams.set(key, value);
  return url.href;
};

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function session(method) {
  const answer = await fetch(box.dataset.session, {
    method,
    headers: { "X-CSRFToken": box.dataset.csrf, Accept: "application/json" },
  });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(said, answer.status);
  return said;
}

// Opens the files and returns when they can be asked; ``told`` hears why it takes a while.
export async function open(told = () => {}) {
  let said = await session("POST");
  base = said.url;
  while (!said.is_open) {
    if (said.phase === "failed" || said.phase === "stopped") {
      throw new Error(text("failed", { why: said.message }));
    }
    told(said.message);
    await pause(WAIT_MS);
    said = await session("GET");
    if (said.phase === "closed") said = await session("POST");
  }
  // On one machine the gate itself may be starting.
  for (let tries = 0; ; tries += 1) {
    try {
      const answer = await fetch(address("info"), { credentials: "include" });
      if (answer.ok) return { ...said, ...(await answer.json()) };
      if (tries > 30) throw new Refused(await answer.json().catch(() => ({})), answer.status);
    } catch (error) {
      if (error instanceof Refused || tries > 60) throw error;
    }
    await pause(WAIT_MS);
  }
}

let reopening = null;
function reopen() {
  reopening ??= open().finally(() => {
    reopening = null;
  });
  return reopening;
}

async function once(act, { query, ...options } = {}) {
  let answer;
  try {
    answer = await fetch(address(act, query), { credentials: "include", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused({ code: "lost", detail: text("lost") }, 0);
  }
  if (answer.ok) return answer;
  throw new Refused(await answer.json().catch(() => ({})), answer.status);
}

export async function ask(act, options) {
  try {
    return await once(act, options);
  } catch (error) {
    if (!["files-closed", "files-away"].includes(error.code)) throw error;
    await reopen();
    return once(act, options);
  }
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
  if (!last) throw new Refused({ code: "lost", detail: text("lost") }, 0);
  return last;
}

// Sends a body and tells how far it is: fetch does not. Resolves with the answer's JSON.
export function send(method, act, { query, body, headers = {}, progress, signal }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, address(act, query));
    request.withCredentials = true;
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => progress?.(event.loaded));
    request.addEventListener("load", () => {
      let said = {};
      try {
        said = JSON.parse(request.responseText);
      } catch {
        // an answer of something in between
      }
      if (request.status < 300) resolve(said);
      else reject(new Refused(said, request.status));
    });
    const lost = () => reject(new Refused({ code: "lost", detail: text("lost") }, 0));
    request.addEventListener("error", lost);
    request.addEventListener("timeout", lost);
    request.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
    signal?.addEventListener("abort", () => request.abort(), { once: true });
    if (signal?.aborted) request.abort();
    else request.send(body);
  });
}
