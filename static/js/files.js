// The home folder of a workspace: listed, carried and changed through the gate.
import { forget, ticket } from "./ticket.js";
import { zone } from "./zone.js";

const box = document.getElementById("files");
const rows = document.getElementById("files-rows");
const stateLine = document.getElementById("files-state");
const progress = document.getElementById("files-progress");
const way = document.getElementById("files-path");
const dialog = document.getElementById("files-dialog");

let here = "";
let asked = ""; // the folder that is shown next, where its answer is under way; else as ``here``
let turn = 0;
let ran = false; // the workspace, when last looked

const text = (name) => box.dataset[`text${name}`];
const say = (words) => {
  stateLine.textContent = words;
};
const asking = (part, path) => `${part}?path=${encodeURIComponent(path)}`;
// A link leads to the portal, which leads to the gate with a ticket.
const linked = (part, path) => `/tickets/${box.dataset.way}/${asking(part, path)}`;
const address = async (part, path) =>
  `${box.dataset.url}/${asking(part, path)}&ticket=${await ticket(box.dataset.way)}`;
const below = (folder, name) => {
  const part = encodeURIComponent(name);
  return folder ? `${folder}/${part}` : part;
};
const parent = (path) => path.split("/").slice(0, -1).join("/");

async function ask(part, path, options = {}, more = "") {
  let answer;
  try {
    answer = await fetch(`${await address(part, path)}${more}`, options);
  } catch {
    throw new Error(text("Lost"));
  }
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  if (answer.status === 401) forget(box.dataset.way);
  throw Object.assign(new Error(said.detail ?? text("Lost")), { code: said.code });
}

const act = (body) =>
  ask("act", "", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });

// --- showing -------------------------------------------------------------------------------

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let value = bytes;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at ? value.toFixed(1) : value}\u00a0${units[at]}`;
}

const make = (name, words = "", css = "") => {
  const element = document.createElement(name);
  element.textContent = words;
  if (css) element.className = css;
  return element;
};

const press = (act, words, label, then) => {
  const button = make("button", words, "btn btn-sm");
  button.type = "button";
  button.dataset.act = act;
  button.setAttribute("aria-label", `${words}: ${label}`);
  button.addEventListener("click", () => guarded(then));
  return button;
};

function moment(seconds) {
  const when = new Date(seconds * 1000);
  const lang = document.documentElement.lang || undefined;
  const time = make("time", when.toLocaleString(lang, { timeZone: zone }));
  time.dateTime = when.toISOString();
  return time;
}

function crumbs(parts) {
  const all = [{ name: text("Home"), path: "" }, ...parts];
  way.replaceChildren(
    ...all.map((part, index) => {
      const item = make("li");
      if (index === all.length - 1) {
        const current = make("span", part.name);
        current.setAttribute("aria-current", "location");
        current.tabIndex = -1; // who opened the folder is here
        item.append(current);
      } else {
        const button = make("button", part.name, "btn-link");
        button.type = "button";
        button.addEventListener("click", () => guarded(() => open(part.path)));
        item.append(button);
      }
      return item;
    }),
  );
}

function row(entry) {
  const line = make("tr");
  line.dataset.path = entry.path;
  const name = make("th");
  name.scope = "row";
  if (entry.kind === "folder") {
    const button = make("button", entry.name, "btn-link");
    button.type = "button";
    button.dataset.act = "open";
    button.addEventListener("click", () => guarded(() => open(entry.path)));
    name.append(button);
  } else {
    name.textContent = entry.name;
  }
  const kinds = { folder: "Folder", file: "File", link: "Link" };
  const acts = make("td", "", "files-acts");
  if (entry.kind === "folder" || entry.kind === "file" || entry.kind === "link") {
    const link = make("a", text("Download"), "btn btn-sm");
    const part = entry.kind === "folder" ? "archive" : "download";
    link.href = linked(part, entry.path);
    link.setAttribute("aria-label", `${text("Download")}: ${entry.name}`);
    link.setAttribute("download", "");
    link.dataset.act = "download";
    link.addEventListener("click", (event) => fetched(event, part, entry.path));
    acts.append(link);
  }
  acts.append(
    press("rename", text("Rename"), entry.name, () => rename(entry)),
    press("delete", text("Delete"), entry.name, () => remove(entry)),
  );
  const changed = make("td");
  changed.append(moment(entry.modified));
  const cells = [
    make("td", text(kinds[entry.kind] ?? "Other")),
    make("td", entry.kind === "file" ? size(entry.size) : "–", "end"),
    changed,
  ];
  // on a telephone a row is a card, and each cell says what it is
  const heads = box.querySelectorAll("th[data-cell]");
  cells.forEach((cell, index) => {
    cell.dataset.label = heads[index].textContent;
  });
  line.append(name, ...cells, acts);
  return line;
}

// Of two that are opened quickly the one that was asked for last is shown, whichever answers first.
// ``renamed``: the new path of what has the focus.
async function open(path, renamed = "") {
  turn += 1;
  const mine = turn;
  asked = path;
  say(text("Loading"));
  const said = await ask("list", path).catch((error) => {
    if (mine !== turn) return null;
    asked = here;
    throw error;
  });
  if (mine !== turn || !said) return;
  const before = here;
  const walked = focused();
  here = said.path;
  asked = here;
  crumbs(said.parts);
  rows.replaceChildren(...said.entries.map(row));
  say(said.truncated ? text("More") : said.entries.length ? "" : text("Empty"));
  document.getElementById("files-archive").href = linked("archive", here);
  if (walked) focus(here === before && { ...walked, path: renamed || walked.path });
}

// Who walks by keyboard is not thrown out of the list when it is read again.
function focused() {
  const active = document.activeElement;
  const line = active?.closest("#files-rows tr");
  if (!line) return way.contains(active) ? {} : null;
  return { path: line.dataset.path, act: active.dataset.act, at: [...rows.children].indexOf(line) };
}

function focus(walked) {
  const lines = [...rows.children];
  const line = lines.find((one) => one.dataset.path === walked.path) ?? lines[Math.min(walked.at, lines.length - 1)];
  const found = line?.querySelector(`[data-act="${walked.act}"]`) ?? line?.querySelector("[data-act]");
  (found ?? way.querySelector("[aria-current]")).focus();
}

// The gate answers a download with an attachment, and the page stays; what it would refuse is said
// here, not on a page of its own.
function fetched(event, part, path) {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  guarded(async () => {
    await ask(part, path, {}, "&check=1");
    const made = make("a");
    made.href = linked(part, path);
    made.setAttribute("download", "");
    document.body.append(made);
    made.click();
    made.remove();
  });
}

async function guarded(work) {
  try {
    await work();
  } catch (error) {
    say(error.message);
  }
}

// --- changing ------------------------------------------------------------------------------

function prompt({ title, words = "", name = null }) {
  const field = document.getElementById("files-dialog-field");
  const input = document.getElementById("files-dialog-name");
  document.getElementById("files-dialog-title").textContent = title;
  document.getElementById("files-dialog-text").textContent = words;
  field.hidden = name === null;
  input.value = name ?? "";
  input.required = name !== null;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => resolve(dialog.returnValue === "ok" ? input.value.trim() || true : null),
      { once: true },
    );
  });
}

async function rename(entry) {
  const name = await prompt({ title: text("NewName"), name: entry.name });
  if (typeof name !== "string") return;
  const to = below(parent(entry.path), name);
  await act({ act: "rename", path: entry.path, to });
  await open(asked, to);
}

async function remove(entry) {
  if ((await prompt({ title: entry.name, words: text("Sure") })) === null) return;
  await act({ act: "delete", path: entry.path });
  await open(asked);
}

async function mkdir() {
  const folder = here;
  const name = await prompt({ title: text("FolderName"), name: "" });
  if (typeof name !== "string") return;
  await act({ act: "mkdir", path: below(folder, name) });
  await open(asked);
}

// XMLHttpRequest, because fetch tells nothing of how far an upload is.
async function put(folder, file, replace) {
  const url = await address("upload", below(folder, file.name)).catch(() => {
    throw new Error(text("Lost"));
  });
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `${url}${replace ? "&replace=1" : ""}`);
    request.upload.addEventListener("progress", (event) => {
      progress.value = event.lengthComputable ? event.loaded / (event.total || 1) : 0;
    });
    request.addEventListener("load", () => {
      let said = {};
      try {
        said = JSON.parse(request.responseText);
      } catch {
        // an answer of something in between
      }
      if (request.status < 300) resolve(said);
      else reject(Object.assign(new Error(said.detail ?? text("Lost")), { code: said.code }));
    });
    request.addEventListener("error", () => reject(new Error(text("Lost"))));
    request.send(file);
  });
}

// Of several that which fails is named.
async function carry(folder, file) {
  try {
    try {
      await put(folder, file, false);
    } catch (error) {
      if (error.code !== "exists") throw error;
      if ((await prompt({ title: file.name, words: text("Replace") })) === null) return;
      await put(folder, file, true);
    }
  } catch (error) {
    throw new Error(`${file.name}: ${error.message}`);
  }
}

async function upload(files) {
  const folder = here;
  let failed = null;
  progress.hidden = false;
  try {
    for (const file of files) {
      say(`${text("Uploading")}: ${file.name}`);
      await carry(folder, file);
    }
  } catch (error) {
    failed = error;
  }
  progress.hidden = true;
  await open(asked).catch((error) => { failed ??= error; }); // those before it are there
  if (failed) throw failed;
  say(text("Done"));
}

// --- beginning -----------------------------------------------------------------------------

// Whether the workspace runs: the part of the page that says so is exchanged when that changes.
function follow() {
  const runs = document.querySelector("[data-running]").dataset.running === "1";
  if (runs === ran) return;
  ran = runs;
  box.hidden = !runs;
  if (runs) guarded(() => open(here));
  else dialog.close();
}

if (box) {
  const input = document.getElementById("files-upload");
  input.addEventListener("change", () => {
    const chosen = [...input.files];
    input.value = "";
    guarded(() => upload(chosen));
  });
  document.getElementById("files-mkdir").addEventListener("click", () => guarded(mkdir));
  box.addEventListener("dragover", (event) => event.preventDefault());
  box.addEventListener("drop", (event) => {
    event.preventDefault();
    guarded(() => upload([...event.dataTransfer.files]));
  });
  const archive = document.getElementById("files-archive");
  archive.addEventListener("click", (event) => fetched(event, "archive", here));
  document.addEventListener("htmx:afterSettle", follow);
  follow();
}
