// Sends the files of a version from this computer into its folder, by the uploader of the files page.
// Where a model is registered they are chosen first; they are sent once the version is there.
import { ask as question } from "./files/dialogs.js";
import { at, box, count, make, note, parent, say, shownName, size, text } from "./files/dom.js";
import { ask, json, lines, open, post } from "./files/gate.js";
import * as uploads from "./files/uploads.js";

const ARCHIVE = /\.(zip|7z|rar|tgz|tbz2?|txz|tar(\.(gz|bz2|xz|zst))?)$/i;
const NAMED = 3;

const form = document.getElementById("version-form"); // null on the page of a version
let chosen = []; // {file, path} below the folder
let then = ""; // the button that was pressed
let busy = false; // registering or sending

async function guarded(work) {
  try {
    await work();
  } catch (error) {
    say("");
    note("error", "error", error.message);
  }
}

// What its page says of the version: coming, failed, "" where nothing is to be sent; else undefined.
const state = () => document.getElementById("version")?.dataset.sending;

// --- choosing --------------------------------------------------------------------------------

// Before a byte is sent: what would not be a model, and why.
function wrongWith(items) {
  const archive = items.find((item) => ARCHIVE.test(item.file.name));
  if (archive) return text("archive", { name: archive.file.name });
  const most = Number(box.dataset.most);
  if (items.length > most) return text("many", { most: count("files", most) });
  return items.length ? "" : text("none");
}

function choose(items) {
  const wrong = wrongWith(items);
  note("error", "error", wrong);
  if (wrong) return undefined;
  chosen = items;
  if (!form || box.dataset.page) return sent(); // it is registered already
  const names = items.slice(0, NAMED).map((item) => shownName(item.path)).join(", ");
  const bytes = items.reduce((sum, item) => sum + item.file.size, 0);
  say(text("to_send", { files: count("files", items.length), size: size(bytes), names: items.length > NAMED ? `${names} …` : names }));
  const named = shownName(items[0].path.split("/")[0]);
  form.elements.origin.value = `upload:${named}`.slice(0, 200);
  const model = form.elements.model;
  model.value ||= named.replace(/\.[^.]*$/, "").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 50);
  return undefined;
}

// --- sending ---------------------------------------------------------------------------------

// Registers the version; a form that is refused is shown with what is wrong with it.
async function register(pressed) {
  then = pressed?.value ?? "";
  const answer = await fetch(location.href, {
    method: "POST",
    headers: { Accept: "application/json" },
    body: new FormData(form, pressed),
  });
  if (answer.ok && answer.headers.get("Content-Type")?.includes("json")) {
    const made = await answer.json();
    Object.assign(box.dataset, made);
    history.replaceState(null, "", made.page); // who loads it again goes on there
    document.getElementById("version-fields").hidden = true;
    document.getElementById("version-foot").hidden = true;
    await sent();
    return;
  }
  const fields = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("version-fields");
  if (!fields) throw new Error(text("lost"));
  document.getElementById("version-fields").replaceWith(fields);
  fields.querySelector("[aria-invalid=true]")?.focus();
}

async function sent() {
  busy = true;
  at("main").hidden = true;
  try {
    await send();
  } catch (error) {
    again();
    throw error;
  }
}

// The choosers come back, with what ends it all.
function again() {
  busy = false;
  at("main").hidden = false;
  at("give-up").hidden = !box.dataset.mine;
  follow();
}

async function send() {
  say(text("opening"));
  const there = await open((why) => say(why ? text("waiting", { why }) : text("opening")));
  say("");
  const bytes = chosen.reduce((sum, item) => sum + item.file.size, 0);
  const free = Math.min(there.room_bytes ?? Infinity, there.free);
  if (bytes > free) throw new Error(text("room", { size: size(bytes), free: size(free), volume: box.dataset.title }));
  const { folder } = box.dataset;
  const items = chosen.map(({ file, path }) => ({ file, path: `${folder}/${path}`, replaces: true }));
  if (state() === "failed" && !(await tidied(folder, new Set(items.map((item) => item.path))))) {
    again();
    return;
  }
  uploads.start((path, sums) => path === null && guarded(() => ended(sums)), folder);
  await uploads.add(items);
}

// What did not fit lies there still and would spoil what comes: whoever sends says whether it goes.
// Only what is below the version's own folder is looked at. False: nothing is to be sent.
async function tidied(folder, wanted) {
  const others = [];
  const take = ({ entries = [] }) =>
    others.push(...entries.map((one) => one.path).filter((path, n) => entries[n].kind !== "folder" && !wanted.has(path)));
  try {
    take(await lines(ask("search", { query: { path: folder, q: "*" } }), take));
  } catch (error) {
    if (error.code !== "missing") throw error; // nothing is there
  }
  if (!others.length) return true;
  const names = others.slice(0, NAMED).map(shownName).join(", ");
  const said = text("others", { n: others.length, files: count("files", others.length), names: others.length > NAMED ? `${names} …` : names });
  const answer = await question(text("others_title"), [make("p", {}, said)], [
    ["", text("cancel")],
    ["keep", text("others_keep")],
    ["remove", text("others_remove"), "btn-danger"],
  ]);
  if (answer === "remove") await lines(post("delete", { paths: others, forever: true }));
  return answer !== null;
}

async function ended({ failed, cancelled }) {
  if (cancelled && box.dataset.mine) await giveUp();
  else if (cancelled || failed) again();
  else toTheEnd();
}

// Nothing is left: neither the version, nor a model that was made with it, nor what arrived. The
// portal is asked first: what another page has sent to its end meanwhile stays.
async function giveUp() {
  busy = true;
  at("main").hidden = true;
  say(text("giving_up"));
  let answer;
  try {
    await open();
    answer = await fetch(box.dataset.page, {
      method: "POST",
      headers: { Accept: "application/json", "X-CSRFToken": box.dataset.csrf },
      body: new URLSearchParams({ act: "cancel" }),
    });
    if (answer.status === 409) throw new Error(text("arrived"));
    if (!answer.ok) throw new Error(text("lost"));
  } catch (error) {
    again();
    throw error;
  }
  const { page } = await answer.json();
  const { folder } = box.dataset;
  try {
    await clear(folder);
  } catch (error) {
    throw new Error(text("left", { folder: `${box.dataset.title}/${folder}`, why: error.message }));
  }
  location.assign(page);
}

async function clear(folder) {
  for (const one of (await json("uploads")).uploads) {
    if (one.path.startsWith(`${folder}/`)) await ask(`uploads/${one.id}`, { method: "DELETE" });
  }
  await gone(folder);
  const above = await json("list", { query: { path: parent(folder) } }).catch(() => null);
  if (above?.total === 0) await gone(parent(folder));
}

async function gone(path) {
  try {
    await lines(post("delete", { paths: [path], forever: true }));
  } catch (error) {
    if (error.code !== "missing") throw error; // nothing had arrived
  }
}

function toTheEnd() {
  const ends = document.getElementById("sending-ends");
  ends.action = box.dataset.page;
  ends.elements.then.value = then;
  ends.submit();
}

// --- beginning -------------------------------------------------------------------------------

for (const id of ["upload", "folder"]) {
  at(id).addEventListener("change", (event) => {
    const items = uploads.chosen(event.target.files, "");
    event.target.value = "";
    guarded(() => choose(items));
  });
}
const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
box.addEventListener("dragover", (event) => {
  if (!carries(event)) return;
  event.preventDefault();
  at("main").classList.add("is-over");
});
box.addEventListener("dragleave", () => at("main").classList.remove("is-over"));
box.addEventListener("drop", (event) => {
  if (!carries(event)) return;
  event.preventDefault();
  at("main").classList.remove("is-over");
  if (busy) return;
  guarded(async () => choose((await uploads.dropped(event.dataTransfer, "", Number(box.dataset.most))).items));
});
at("give-up").addEventListener("click", () => guarded(giveUp));
form?.addEventListener("submit", (event) => {
  if (!chosen.length || !form.elements.origin.value.startsWith("upload:")) return;
  event.preventDefault();
  if (busy) return; // one press registers one version
  busy = true;
  guarded(() => register(event.submitter)).finally(() => {
    if (!box.dataset.page) busy = false; // it was refused
  });
});

// On the page of a version: it may be sent, or changed, from another page meanwhile.
function follow() {
  box.hidden = state() === "" && !busy;
  for (const words of box.querySelectorAll("[data-when]")) words.hidden = words.dataset.when !== (state() || "coming");
}
document.addEventListener("htmx:afterSettle", follow);
follow();
