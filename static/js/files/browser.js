// The files page of a volume. Everything about files comes from the gate; the portal only says
// where that is.
import { copy } from "./copying.js";
import { askDelete, askName } from "./dialogs.js";
import { at, below, box, button, count, make, named, note, number, parent, say, shownName, size, text } from "./dom.js";
import { ask, lines, link as linkTo, open as openFiles, post, postJson } from "./gate.js";
import * as listing from "./listing.js";
import * as preview from "./preview.js";
import * as unpack from "./unpack.js";
import * as uploads from "./uploads.js";
import * as views from "./views.js";

const mayWrite = box?.dataset.mayWrite === "yes";
const { state } = listing;
let clipboard = null; // {verb, entries}
let undoS = 300;

async function guarded(work) {
  try {
    return await work();
  } catch (error) {
    if (error.name !== "AbortError") note("error", "error", error.message);
    return null;
  }
}

const guard = (work) => (...given) => guarded(() => work(...given));

// --- where we are ------------------------------------------------------------------------------------

const wanted = () => location.hash.slice(1);

// Back and a changed address come by hashchange; this does not fire it.
async function go(path) {
  if (wanted() !== path) history.pushState(null, "", path ? `#${path}` : location.pathname);
  await show(path);
}

async function show(path, options) {
  views.close();
  note("error");
  if (!options?.keep) preview.close();
  const said = await listing.load(path, options);
  if (said) way(said.parts);
}

let isLate = false; // the list waits for the name that is being typed
function refresh() {
  isLate = false;
  return show(state.asked, { keep: true }); // a folder that is being opened is not left for the one before
}

function way(parts) {
  const all = [{ name: box.dataset.title, path: "" }, ...parts];
  at("path").replaceChildren(
    ...all.map((part, index) => {
      const last = index === all.length - 1;
      return make("li", {}, last
        ? make("span", { "aria-current": "location" }, named(part.name))
        : make("button", { type: "button", class: "btn-link", onclick: guard(() => go(part.path)) }, named(part.name)));
    }),
  );
}

async function opened(entry) {
  if (entry.kind === "folder") {
    await go(entry.path);
    listing.focusAt(0);
  } else if (entry.kind === "file") {
    listing.choose([entry.path]);
    await preview.open(entry);
  } else {
    say(entry.kind === "link" ? text("leads", { target: entry.target ?? "" }) : text("code:special"));
  }
}

const ARCHIVE = /\.(zip|tar|tgz|tbz2?|txz|tar\.(gz|bz2|xz))$/i;

function selection() {
  const chosen = listing.chosen();
  at("chosen").hidden = !chosen.length;
  if (!chosen.length) return;
  const bytes = chosen.reduce((sum, entry) => sum + (entry.kind === "file" ? entry.size : 0), 0);
  at("chosen-words").textContent = `${text("chosen", { n: chosen.length })}${bytes ? ` · ${size(bytes)}` : ""}`;
  const single = at("chosen").querySelector("[data-act=rename]");
  if (single) single.disabled = chosen.length !== 1;
  const pack = at("chosen").querySelector("[data-act=extract]");
  if (pack) pack.hidden = chosen.length !== 1 || chosen[0].kind !== "file" || !ARCHIVE.test(chosen[0].name);
}

// --- acts ----------------------------------------------------------------------------------------------

// A download is a navigation that the gate answers with an attachment: the page stays.
function fetchFile(url) {
  const link = make("a", { href: url, download: "" });
  document.body.append(link);
  link.click();
  link.remove();
}

async function download(chosen) {
  await ask("info"); // opened again when it was closed: a navigation could not
  if (chosen.length === 1) {
    const [entry] = chosen;
    fetchFile(linkTo(entry.kind === "file" ? "file" : "zip", { path: entry.path }));
    return;
  }
  const { id } = await postJson("selection", { paths: chosen.map((e) => e.path) });
  fetchFile(linkTo("zip", { selection: id, name: shownName(state.path) || box.dataset.title }));
}

async function mkdir() {
  const name = await askName(text("folder_name"));
  if (!name) return;
  if (name.includes("/")) throw new Error(text("slash"));
  await postJson("mkdir", { path: below(state.path, name) });
  await refresh();
}

function rename(entry) {
  const line = [...at("rows").children].find((row) => row.dataset.path === entry.path);
  const cell = line?.querySelector("th");
  if (!cell) return;
  const input = make("input", { type: "text", class: "form-control form-control-sm", maxlength: "255", "aria-label": text("rename", { name: entry.name }) });
  const before = [...cell.childNodes];
  input.value = entry.name;
  cell.replaceChildren(input);
  input.focus();
  const stem = entry.kind === "file" ? entry.name.lastIndexOf(".") : -1;
  input.setSelectionRange(0, stem > 0 ? stem : entry.name.length);
  let over = false;
  let refused = "";
  const end = async (keep) => {
    if (over) return;
    over = true;
    const name = input.value.trim();
    // who leaves a name that was refused gives it up
    if (!keep || !name || name === entry.name || name === refused) {
      cell.replaceChildren(...before);
      before[0].focus?.();
      if (isLate) await refresh();
      return;
    }
    let said;
    try {
      if (name.includes("/")) throw new Error(text("slash"));
      said = await postJson("rename", { path: entry.path, to: below(parent(entry.path), name) });
    } catch (error) {
      // what was typed stays, to be mended
      refused = name;
      over = false;
      input.classList.add("is-invalid");
      input.setAttribute("aria-invalid", "true");
      input.focus();
      throw error;
    }
    cell.replaceChildren(...before);
    await refresh();
    listing.choose([said.done.path]);
    listing.focusAt(state.entries.findIndex((one) => one.path === said.done.path));
  };
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") guarded(() => end(true));
    if (event.key === "Escape") guarded(() => end(false));
  });
  input.addEventListener("blur", () => guarded(() => end(true)));
}

async function remove(chosen) {
  const paths = chosen.map((entry) => entry.path);
  const said = { n: paths.length, name: chosen[0].name };
  const sure = await askDelete(text("delete_title", said), (line, undo, signal) => {
    undo.textContent = text("delete_undo", { minutes: Math.round(undoS / 60) });
    const tell = ({ files, folders, bytes }, key) => {
      line.textContent = text(key, { files: count("files", files), folders: count("folders", folders), size: size(bytes) });
    };
    lines(post("count", { paths }, { signal }), (part) => tell(part.progress, "delete_more"))
      .then(({ done }) => tell(done, done.complete ? "delete_lost" : "delete_more"))
      .catch(() => {});
  });
  if (!sure) return;
  const gone = await postJson("delete", { paths });
  preview.close();
  await refresh();
  told(gone.refused);
  note("undo", "info", text("deleted", { ...said, n: gone.deleted }), button(text("undo"), guard(async () => {
    const back = await postJson("restore", { id: gone.id });
    note("undo", "success", text("restored"));
    await refresh();
    listing.choose(back.restored);
  })));
}

function told(refused) {
  const [first] = refused;
  if (!first) return;
  const why = text(`code:${first.code}`);
  note("error", "error", text("refused", { name: shownName(first.path), why }));
}

function take(verb, entries) {
  clipboard = { verb, entries };
  const said = { n: entries.length, name: entries[0].name };
  note(
    "clipboard",
    "info",
    text(verb === "move" ? "moving" : "copying", said),
    button(text(verb === "move" ? "move_here" : "copy_here"), guard(paste), "btn btn-sm btn-primary"),
    button(text("cancel"), () => {
      clipboard = null;
      note("clipboard");
    }),
  );
}

async function paste() {
  if (!clipboard) return;
  const { verb, entries } = clipboard;
  const asked = { paths: entries.map((entry) => entry.path), to: state.path };
  clipboard = null;
  note("clipboard");
  if (verb === "move") {
    const said = await postJson("move", asked);
    told(said.refused);
    if (said.moved.length) say(text("moved"));
    await refresh();
    return;
  }
  const here = asked.paths.every((path) => parent(path) === state.path);
  const done = await copy({ ...asked, conflict: here ? "keep-both" : "refuse" });
  await refresh();
  if (!done) {
    say(text("copy_ended"));
    return;
  }
  told(done.refused);
  const left = done.skipped ? ` ${text("left_out", { n: number(done.skipped) })}` : "";
  say(`${text("copied", { files: count("files", done.files), size: size(done.bytes) })}${left}`);
}

const ACTS = {
  extract: ([entry]) => unpack.extract(entry, { refresh, guard }),
  download,
  rename: ([entry]) => rename(entry),
  move: (chosen) => take("move", chosen),
  copy: (chosen) => take("copy", chosen),
  delete: remove,
  clear: () => listing.choose([]),
};

// --- keys and drops ----------------------------------------------------------------------------------------

function keyed(event) {
  if (event.target.closest("input, textarea, select, dialog, [popover]") && !event.target.matches("input[type=checkbox]")) return;
  if (at("main").hidden || !at("view").hidden) return;
  if (listing.key(event)) {
    event.preventDefault();
    return;
  }
  const chosen = listing.chosen();
  const picked = chosen.length ? chosen : [listing.current()].filter(Boolean);
  const control = event.ctrlKey || event.metaKey;
  let work = null;
  if (event.key === "Escape") work = () => (chosen.length ? listing.choose([]) : preview.close());
  else if (event.key === "Backspace" && state.path) work = () => go(parent(state.path));
  else if (event.key === "/" && !control) work = () => at("words").focus();
  else if (mayWrite && picked.length) {
    if (event.key === "Delete") work = () => remove(picked);
    else if (event.key === "F2") work = () => rename(picked[0]);
    else if (control && event.key === "x") work = () => take("move", picked);
    else if (control && event.key === "c" && !getSelection().toString()) work = () => take("copy", picked);
  }
  if (mayWrite && control && event.key === "v" && clipboard) work = paste;
  if (!work) return;
  event.preventDefault();
  guarded(async () => work());
}

function armDrops() {
  const area = at("main");
  const sign = at("drop");
  let depth = 0;
  const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  area.addEventListener("dragenter", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    depth += 1;
    sign.hidden = false;
  });
  area.addEventListener("dragover", (event) => {
    if (carries(event)) event.preventDefault();
  });
  area.addEventListener("dragleave", () => {
    depth = Math.max(0, depth - 1);
    sign.hidden = depth === 0;
  });
  area.addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    depth = 0;
    sign.hidden = true;
    guarded(async () => {
      const { items, folders } = await uploads.dropped(event.dataTransfer, state.path);
      await uploads.add(items, folders);
    });
  });
}

function armUploads() {
  for (const id of ["upload", "folder"]) {
    at(id)?.addEventListener("change", (event) => {
      const items = uploads.chosen(event.target.files, state.path);
      event.target.value = "";
      guarded(() => uploads.add(items));
    });
  }
  let soon = null;
  uploads.start((path) => {
    // Many small files land in a moment: the list is read again now and then only.
    if (path !== null && parent(path) !== state.asked && !path.startsWith(`${state.asked}/`) && state.asked) return;
    soon ??= setTimeout(() => {
      soon = null;
      guarded(refresh);
    }, path === null ? 0 : 700);
  });
}

// --- beginning ------------------------------------------------------------------------------------------------

function arm() {
  listing.on({ open: guard(opened), chosen: selection, late: () => { isLate = true; } });
  at("chosen").addEventListener("click", (event) => {
    const act = event.target.closest("[data-act]")?.dataset.act;
    if (act) guarded(async () => ACTS[act](listing.chosen()));
  });
  for (const head of document.querySelectorAll("th[data-sort]")) {
    head.querySelector("button").addEventListener("click", guard(async () => {
      const same = state.sort === head.dataset.sort;
      state.order = same && state.order === "asc" ? "desc" : "asc";
      state.sort = head.dataset.sort;
      await show(state.asked);
    }));
  }
  at("mkdir")?.addEventListener("click", guard(mkdir));
  at("room").addEventListener("click", guard(() => views.usage(state.path, guard(async (path) => {
    await views.usage(path, guard(go));
  }))));
  at("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const words = at("words").value.trim();
    if (words) guarded(() => views.search(state.path, words, guard(found)));
    else views.close();
  });
  addEventListener("hashchange", () => guarded(() => show(wanted())));
  document.addEventListener("keydown", keyed);
  if (mayWrite) {
    armDrops();
    armUploads();
  }
}

async function found(entry) {
  await go(entry.kind === "folder" ? entry.path : parent(entry.path));
  if (entry.kind !== "folder") {
    listing.choose([entry.path]);
    if (entry.kind === "file") await preview.open(entry);
  }
}

async function begin() {
  const line = at("opening-words");
  at("opening").hidden = false;
  at("opening-bar").hidden = false;
  at("again").hidden = true;
  try {
    const said = await openFiles((why) => {
      line.textContent = why ? text("waiting", { why }) : text("opening");
    });
    undoS = said.undo_s;
    at("opening").hidden = true;
    at("main").hidden = false;
    arm();
    await guarded(() => show(wanted()));
    if (new URLSearchParams(location.search).get("show") === "usage") at("room").click();
  } catch (error) {
    line.textContent = error.message;
    at("opening-bar").hidden = true;
    at("again").hidden = false;
  }
}

if (box) {
  at("again").addEventListener("click", begin);
  begin();
}


