// The home folder of a workspace: listed, carried and changed through the gate.
const box = document.getElementById("files");
const rows = document.getElementById("files-rows");
const stateLine = document.getElementById("files-state");
const progress = document.getElementById("files-progress");
const dialog = document.getElementById("files-dialog");

let here = "";

const text = (name) => box.dataset[`text${name}`];
const say = (words) => {
  stateLine.textContent = words;
};
const address = (part, path) => `${box.dataset.url}/${part}?path=${encodeURIComponent(path)}`;
const below = (name) => {
  const part = encodeURIComponent(name);
  return here ? `${here}/${part}` : part;
};

async function ask(part, path, options = {}) {
  let answer;
  try {
    answer = await fetch(address(part, path), { credentials: "include", ...options });
  } catch {
    throw new Error(text("Lost"));
  }
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
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

const press = (words, label, then) => {
  const button = make("button", words, "btn btn-sm");
  button.type = "button";
  button.setAttribute("aria-label", `${words}: ${label}`);
  button.addEventListener("click", () => guarded(then));
  return button;
};

function crumbs(parts) {
  const list = document.getElementById("files-path");
  const all = [{ name: text("Home"), path: "" }, ...parts];
  list.replaceChildren(
    ...all.map((part, index) => {
      const item = make("li");
      if (index === all.length - 1) {
        const current = make("span", part.name);
        current.setAttribute("aria-current", "location");
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
  const name = make("th");
  name.scope = "row";
  if (entry.kind === "folder") {
    const button = make("button", entry.name, "btn-link");
    button.type = "button";
    button.addEventListener("click", () => guarded(() => open(entry.path)));
    name.append(button);
  } else {
    name.textContent = entry.name;
  }
  const kinds = { folder: "Folder", file: "File", link: "Link" };
  const acts = make("td", "", "files-acts");
  if (entry.kind === "folder" || entry.kind === "file" || entry.kind === "link") {
    const link = make("a", text("Download"), "btn btn-sm");
    link.href = address(entry.kind === "folder" ? "archive" : "download", entry.path);
    link.setAttribute("aria-label", `${text("Download")}: ${entry.name}`);
    link.setAttribute("download", "");
    acts.append(link);
  }
  acts.append(
    press(text("Rename"), entry.name, () => rename(entry)),
    press(text("Delete"), entry.name, () => remove(entry)),
  );
  const when = new Date(entry.modified * 1000);
  const changed = make("td");
  const time = make("time", when.toLocaleString(document.documentElement.lang || undefined));
  time.dateTime = when.toISOString();
  changed.append(time);
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

async function open(path) {
  say(text("Loading"));
  const said = await ask("list", path);
  here = said.path;
  crumbs(said.parts);
  rows.replaceChildren(...said.entries.map(row));
  say(said.truncated ? text("More") : said.entries.length ? "" : text("Empty"));
  document.getElementById("files-archive").href = address("archive", here);
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
  await act({ act: "rename", path: entry.path, to: below(name) });
  await open(here);
}

async function remove(entry) {
  if ((await prompt({ title: entry.name, words: text("Sure") })) === null) return;
  await act({ act: "delete", path: entry.path });
  await open(here);
}

async function mkdir() {
  const name = await prompt({ title: text("FolderName"), name: "" });
  if (typeof name !== "string") return;
  await act({ act: "mkdir", path: below(name) });
  await open(here);
}

// XMLHttpRequest, because fetch tells nothing of how far an upload is.
function put(file, replace) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `${address("upload", below(file.name))}${replace ? "&replace=1" : ""}`);
    request.withCredentials = true;
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

async function upload(files) {
  progress.hidden = false;
  try {
    for (const file of files) {
      say(`${text("Uploading")}: ${file.name}`);
      try {
        await put(file, false);
      } catch (error) {
        if (error.code !== "exists") throw error;
        if ((await prompt({ title: file.name, words: text("Replace") })) === null) continue;
        await put(file, true);
      }
    }
  } finally {
    progress.hidden = true;
  }
  await open(here);
  say(text("Done"));
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
  guarded(() => open(""));
}
