// Uploads: a queue that survives lost connections and, when the same files are chosen again, a
// reload. Small files go in one request, large ones in pieces that are checked one by one.
import { at, below, button, count, duration, make, note, number, shownName, size, text } from "./dom.js";
import { askConflict } from "./dialogs.js";
import { ask, json, lines, post, postJson, send } from "./gate.js";

const SMALL = 8 * 1024 * 1024;
const PIECE = 16 * 1024 * 1024;
const AT_ONCE = 3;
const MARK = 200; // characters that the server keeps
const RETRY_S = [1, 2, 5, 10, 20, 30];

const box = at("uploads");
const waiting = [];
const running = new Set();
let unfinished = []; // of an earlier page
let again = false; // the next choice of files is the one that was asked for
let totals = null;
let paused = false;
let forAll = null; // the answer about names that are taken, for all others
let question = Promise.resolve(); // one question at a time
let landed = () => {};
let within = ""; // the folder whose interrupted uploads are told of; "": all of them

// ``whenLanded`` hears each path, and null with the sums once none is left.
export const start = (whenLanded, folder = "") => {
  landed = whenLanded;
  within = folder && `${folder}/`;
  lookForUnfinished();
  at("upload")?.addEventListener("cancel", () => {
    again = false;
  });
  addEventListener("beforeunload", (event) => {
    if (totals) event.preventDefault();
  });
};

// ``items``: {file, path} with the path below the volume; ``folders``: paths to make.
export async function add(items, folders = []) {
  takeUp(items);
  for (const path of folders) await postJson("mkdir", { path, parents: true });
  totals ??= { all: 0, done: 0, failed: 0, size: 0, sent: 0, last: "", lost: "", lastSent: 0, lastAt: Date.now(), rate: 0 };
  for (const item of items) {
    waiting.push({ ...item, sent: 0 });
    totals.all += 1;
    totals.size += item.file.size;
  }
  show();
  onward();
}

// Tells a file from another of its name and size: an upload goes on with the same one only.
const markOf = (file) => [...`${file.size}:${file.lastModified}:${file.name}`].slice(0, MARK).join("");

// What an earlier page began goes on by itself where it lies at the same path. Elsewhere only when
// the page asked to choose the files again: a namesake for another folder is another file.
function takeUp(items) {
  const claim = (item, fits) => {
    const found = unfinished.findIndex((one) => one.mark === markOf(item.file) && fits(one));
    return found < 0 ? null : unfinished.splice(found, 1)[0];
  };
  const rest = items.filter((item) => !claim(item, (one) => one.path === item.path));
  if (again) for (const item of rest) item.path = claim(item, () => true)?.path ?? item.path;
  again = false;
}

function pump() {
  while (!paused && running.size < AT_ONCE && waiting.length) {
    const item = waiting.shift();
    item.stop = new AbortController();
    running.add(item);
    item.carried = carry(item);
    item.carried
      .then(() => ended(item, true))
      .catch((error) => {
        if (!running.has(item)) return; // cancelled
        if (error.name === "AbortError") {
          // Paused; by now it may have been resumed.
          running.delete(item);
          waiting.unshift(item);
          onward();
          return;
        }
        totals.failed += 1;
        totals.lost = item.file.name;
        note(`upload-${item.path}`, "error", text("refused", { name: item.file.name, why: error.message }));
        ended(item, false);
      });
  }
}

function ended(item, good) {
  if (!running.delete(item)) return; // cancelled
  if (good) {
    totals.done += 1;
    totals.last = item.file.name;
    moved(item, item.file.size);
    landed(item.path);
  }
  onward();
}

function onward() {
  if (!running.size && !waiting.length && !paused) finish();
  else pump();
}

// ``stopped``: of what was cancelled, each file's own end, good or bad.
function finish(stopped = null) {
  const { done, failed, last, lost } = totals;
  totals = null;
  forAll = null;
  box.hidden = true;
  if (done) note("uploaded", "success", text("uploaded", { n: done, name: last }));
  if (failed) note("failed", "error", text("upload_failed", { n: failed, name: lost }));
  const end = () => {
    landed(null, { done, failed, cancelled: stopped !== null });
    lookForUnfinished();
  };
  if (stopped) stopped.then(end);
  else end();
}

// --- one file -------------------------------------------------------------------------------

async function carry(item) {
  for (let tries = 0; ; tries += 1) {
    try {
      await (item.file.size <= SMALL ? whole(item) : pieces(item));
      return;
    } catch (error) {
      if (error.code === "exists") {
        if (item.replaces && (await isThere(item))) return;
        const answer = item.replaces ? "replace" : await whatThen(item);
        if (answer === "skip") return;
        item.conflict = answer;
      } else if (error.code === "files-closed" || error.code === "files-away") {
        await ask("info");
      } else if (["lost", "short", "checksum", "busy", "in-use"].includes(error.code) && tries < RETRY_S.length) {
        await sleep(RETRY_S[tries], item);
      } else throw error;
    }
  }
}

// What is sent into a folder of its own goes on where it was: what has landed is not sent again.
// On the page of files a namesake of the same size may be another file, so there it is asked about.
async function isThere(item) {
  const there = await json("stat", { query: { path: item.path } }).catch(() => null);
  const same = there?.size === item.file.size && Math.floor(there.modified) === Math.floor(item.file.lastModified / 1000);
  return there?.kind === "file" && same;
}

async function whatThen(item) {
  const mine = question.then(async () => {
    if (forAll) return forAll;
    const { answer, all } = await askConflict(shownName(item.path));
    if (all) forAll = answer;
    return answer;
  });
  question = mine.catch(() => {});
  return mine;
}

async function whole(item) {
  const body = await item.file.slice().arrayBuffer();
  await send("PUT", "file", {
    query: {
      path: item.path,
      conflict: item.conflict ?? "refuse",
      modified: String(Math.floor(item.file.lastModified / 1000)),
    },
    body,
    headers: await checksum(body),
    progress: (sent) => moved(item, sent),
    signal: item.stop.signal,
  });
}

async function pieces(item) {
  if (item.ending && (await landedMeanwhile(item))) return;
  const begun = await postJson("uploads", {
    path: item.path,
    size: item.file.size,
    conflict: item.conflict ?? "refuse",
    mark: markOf(item.file),
    modified: item.file.lastModified / 1000,
  });
  let { offset } = begun;
  moved(item, offset);
  while (offset < item.file.size) {
    item.stop.signal.throwIfAborted();
    const body = await item.file.slice(offset, offset + PIECE).arrayBuffer();
    const before = offset;
    try {
      const said = await send("PATCH", `uploads/${begun.id}`, {
        query: { offset: String(offset) },
        body,
        headers: await checksum(body),
        progress: (sent) => moved(item, before + sent),
        signal: item.stop.signal,
      });
      offset = said.offset;
    } catch (error) {
      if (error.code !== "offset") throw error;
      offset = (await json(`uploads/${begun.id}`)).offset;
    }
  }
  item.ending = begun.id;
  await land(item);
}

const land = (item) => lines(post(`uploads/${item.ending}/finish`, { conflict: item.conflict ?? "" }));

// The answer to the end may be lost on its way: then it is asked for again, because to begin anew
// would find the file there, and ask what to do about it.
async function landedMeanwhile(item) {
  try {
    await land(item);
    return true;
  } catch (error) {
    if (!["no-upload", "offset"].includes(error.code)) throw error;
    item.ending = null;
    return false;
  }
}

// What arrives is what was read here: by SHA-256 where the page may, else by CRC-32.
async function checksum(body) {
  const said = crypto.subtle
    ? `sha256=${[...new Uint8Array(await crypto.subtle.digest("SHA-256", body))].map((b) => b.toString(16).padStart(2, "0")).join("")}`
    : `crc32=${crc32(new Uint8Array(body)).toString(16).padStart(8, "0")}`;
  return { "X-Berth-Checksum": said };
}

let table = null;
function crc32(bytes) {
  table ??= Uint32Array.from({ length: 256 }, (_none, n) => {
    let c = n;
    for (let k = 0; k < 8; k += 1) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
    return c;
  });
  let crc = 0xffffffff;
  for (const byte of bytes) crc = table[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

function sleep(seconds, item) {
  item.stop.signal.throwIfAborted();
  if (totals) totals.trouble = text("retrying", { n: seconds });
  show();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      if (totals) totals.trouble = "";
      resolve();
    }, seconds * 1000);
    item.stop.signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("", "AbortError"));
    });
  });
}

// --- what is seen ------------------------------------------------------------------------------

function moved(item, sent) {
  if (!totals) return;
  totals.sent += sent - item.sent;
  item.sent = sent;
  const passed = (Date.now() - totals.lastAt) / 1000;
  if (passed >= 1) {
    const rate = (totals.sent - totals.lastSent) / passed;
    totals.rate = totals.rate ? totals.rate * 0.7 + rate * 0.3 : rate;
    totals.lastAt = Date.now();
    totals.lastSent = totals.sent;
  }
  show();
}

let bar = null;
function show() {
  if (!totals) return;
  if (box.hidden) {
    const words = make("p", { class: "mb-1", role: "status" });
    const rate = make("p", { class: "text-secondary mb-1" });
    const progress = make("progress", { class: "bar", max: "1", value: "0", "aria-label": text("upload_bar") });
    const toggle = button(text("pause"), () => (paused ? resume() : pause()));
    box.replaceChildren(words, progress, rate, make("div", { class: "browser-acts" }, toggle, button(text("cancel"), cancel)));
    box.hidden = false;
    bar = { words, rate, progress, toggle };
  }
  const said = {
    done: number(totals.done),
    all: count("files", totals.all),
    sent: size(totals.sent),
    size: size(totals.size),
  };
  bar.words.textContent = text(paused ? "paused" : "uploading", said);
  bar.progress.value = totals.size ? totals.sent / totals.size : totals.done / (totals.all || 1);
  const left = totals.rate > 0 ? (totals.size - totals.sent) / totals.rate : null;
  bar.rate.textContent =
    totals.trouble || (left === null || paused ? "" : text("rate", { rate: size(totals.rate), left: duration(left) }));
  bar.toggle.textContent = text(paused ? "resume" : "pause");
}

function pause() {
  paused = true;
  for (const item of running) item.stop.abort();
  show();
}

function resume() {
  paused = false;
  show();
  onward(); // the last one may have landed meanwhile
}

function cancel() {
  waiting.length = 0;
  paused = false;
  for (const item of running) item.stop.abort();
  const stopped = Promise.allSettled([...running].map((item) => item.carried)); // one may be landing
  running.clear();
  if (totals) finish(stopped);
}

// --- what an earlier page began ------------------------------------------------------------------

let looks = 0;

async function lookForUnfinished(tries = 1) {
  looks += 1;
  const mine = looks;
  let said;
  try {
    said = await json("uploads");
  } catch (error) {
    // A lost answer does not mean that there is none.
    const isLost = error.code === "lost" || error.status >= 500;
    const seconds = RETRY_S[Math.min(tries, RETRY_S.length - 1)];
    if (isLost) setTimeout(() => mine === looks && lookForUnfinished(tries + 1), seconds * 1000);
    return;
  }
  if (mine !== looks) return;
  unfinished = said.uploads.filter((one) => one.path.startsWith(within));
  if (!unfinished.length || totals) {
    note("unfinished");
    return;
  }
  const names = unfinished.slice(0, 5).map((one) => one.name).join(", ");
  note(
    "unfinished",
    "info",
    text("unfinished", { n: unfinished.length, names: unfinished.length > 5 ? `${names} …` : names }),
    button(text("choose_again"), () => {
      again = true;
      at("upload").click();
    }),
    button(text("forget"), async () => {
      for (const one of unfinished) await ask(`uploads/${one.id}`, { method: "DELETE" }).catch(() => {});
      lookForUnfinished();
    }),
  );
}

// --- what was dropped or chosen ------------------------------------------------------------------

// Files of an input; those of a folder keep their way below it.
export const chosen = (files, folder) =>
  [...files].map((file) => ({
    file,
    path: (file.webkitRelativePath || file.name).split("/").reduce(below, folder),
  }));

// Files and folders of a drop, folders with all that is in them.
// ``most``: files after which nobody looks for more.
export async function dropped(transfer, folder, most = Infinity) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const found = { items: [], folders: [], most };
  for (const entry of entries) await walk(entry, folder, found);
  return found;
}

async function walk(entry, folder, found) {
  if (found.items.length > found.most) return;
  const path = below(folder, entry.name);
  if (entry.isFile) {
    found.items.push({ file: await new Promise((yes, no) => entry.file(yes, no)), path });
    return;
  }
  found.folders.push(path);
  const reader = entry.createReader();
  for (;;) {
    const part = await new Promise((yes, no) => reader.readEntries(yes, no));
    if (!part.length) return;
    for (const one of part) await walk(one, path, found);
  }
}
