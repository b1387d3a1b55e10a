// The table: rows in pages, sorted by its heads, with a selection by mouse and keyboard.
import { at, icon, make, named, number, say, size, text, when } from "./dom.js";
import { json } from "./gate.js";

const PAGE = 300;
const rows = at("rows");
const ICONS = { folder: "folder", file: "file", link: "link", other: "question-mark" };

// ``asked``: the folder that is shown next, where its answer is under way; else as ``path``.
export const state = { path: "", asked: "", sort: "name", order: "asc", entries: [], total: 0, chosen: new Set(), anchor: -1 };
const heard = { open: () => {}, chosen: () => {}, late: () => {} };
let turn = 0;

export const on = (handlers) => Object.assign(heard, handlers);

// Null where it is not shown: something else was asked for meanwhile, or a name is being typed.
export async function load(path, { keep = false } = {}) {
  turn += 1;
  const mine = turn;
  state.asked = path;
  say(keep ? "" : text("loading"));
  const count = keep ? Math.max(PAGE, state.entries.length) : PAGE;
  const said = await page(path, 0, Math.min(1000, count)).catch((error) => {
    if (mine === turn) state.asked = state.path;
    throw error;
  });
  if (mine !== turn) return null;
  if (keep && rows.querySelector("input[type=text]")) {
    heard.late();
    return null;
  }
  const focus = keep && rows.contains(document.activeElement) ? document.activeElement.closest("tr")?.dataset.path : undefined;
  const kept = keep ? state.chosen : new Set();
  Object.assign(state, { path: said.path, asked: said.path, entries: said.entries, total: said.total, truncated: said.truncated });
  state.chosen = new Set(said.entries.map((e) => e.path).filter((p) => kept.has(p)));
  state.anchor = -1;
  rows.replaceChildren(...said.entries.map(row));
  say(said.truncated ? text("truncated") : "");
  foot();
  mark();
  if (focus !== undefined) focusAt(indexOf(focus));
  return said;
}

const page = (path, offset, limit) =>
  json("list", { query: { path, offset, limit, sort: state.sort, order: state.order } });

export async function more() {
  const said = await page(state.path, state.entries.length, PAGE);
  const known = new Set(state.entries.map((e) => e.path));
  const fresh = said.entries.filter((e) => !known.has(e.path));
  state.entries.push(...fresh);
  state.total = said.total;
  rows.append(...fresh.map(row));
  if (!fresh.length) state.total = state.entries.length;
  foot();
}

function foot() {
  const { entries, total } = state;
  at("empty").hidden = total > 0;
  at("table").hidden = total === 0;
  at("more").hidden = entries.length >= total;
  at("count").textContent = entries.length < total
    ? text("shown", { shown: number(entries.length), total: number(total) })
    : total ? text("items", { n: number(total) }) : "";
  for (const head of document.querySelectorAll("th[data-sort]")) {
    const mine = head.dataset.sort === state.sort;
    if (mine) head.setAttribute("aria-sort", state.order === "asc" ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
}

function row(entry) {
  const tick = make("input", { type: "checkbox", class: "form-check-input", tabindex: "-1", "aria-label": text("select", { name: entry.name }) });
  const name = make("button", { type: "button", class: "btn-link browser-name", "data-path": entry.path }, icon(ICONS[entry.kind]), named(entry.name));
  if (entry.target) name.title = text("leads", { target: entry.target });
  return make(
    "tr",
    { "data-path": entry.path },
    make("td", { class: "browser-tick" }, tick),
    make("th", { scope: "row" }, name),
    make("td", { class: "end" }, entry.kind === "file" ? size(entry.size) : text(`kind:${entry.kind}`)),
    make("td", {}, when(entry.modified)),
  );
}

// --- selection --------------------------------------------------------------------------------------

export const chosen = () => state.entries.filter((entry) => state.chosen.has(entry.path));
const indexOf = (path) => state.entries.findIndex((entry) => entry.path === path);

export function mark() {
  for (const line of rows.children) {
    const is = state.chosen.has(line.dataset.path);
    line.classList.toggle("is-chosen", is);
    line.setAttribute("aria-selected", String(is));
    line.querySelector("input").checked = is;
  }
  const all = at("all");
  all.checked = state.entries.length > 0 && state.chosen.size === state.entries.length;
  all.indeterminate = state.chosen.size > 0 && !all.checked;
  heard.chosen();
}

export function choose(paths) {
  state.chosen = new Set(paths);
  mark();
}

function toggle(index) {
  const { path } = state.entries[index];
  if (!state.chosen.delete(path)) state.chosen.add(path);
  state.anchor = index;
  mark();
}

function upTo(index) {
  const [low, high] = [state.anchor < 0 ? index : state.anchor, index].sort((a, b) => a - b);
  state.chosen = new Set(state.entries.slice(low, high + 1).map((e) => e.path));
  mark();
}

function pressed(event) {
  const line = event.target.closest("tr[data-path]");
  if (!line || event.target.closest("input[type=text]")) return;
  const index = indexOf(line.dataset.path);
  if (index < 0) return;
  if (event.target.matches("input[type=checkbox]")) {
    if (event.shiftKey) upTo(index);
    else toggle(index);
  } else if (event.shiftKey) upTo(index);
  else if (event.ctrlKey || event.metaKey) toggle(index);
  else if (event.target.closest(".browser-name")) heard.open(state.entries[index]);
  else {
    state.anchor = index;
    choose([line.dataset.path]);
  }
}

function focused() {
  const name = document.activeElement?.closest?.("tr[data-path]");
  return name ? indexOf(name.dataset.path) : -1;
}

export function focusAt(index) {
  const line = rows.children[Math.max(0, Math.min(index, rows.children.length - 1))];
  line?.querySelector(".browser-name")?.focus();
}

// Returns whether the key was for the list.
export function key(event) {
  const index = focused();
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 };
  if (event.key in steps || event.key === "Home" || event.key === "End") {
    if (index < 0 && event.key !== "ArrowDown") return false;
    const last = state.entries.length - 1;
    const to = event.key === "Home" ? 0 : event.key === "End" ? last : Math.max(0, Math.min(last, index + steps[event.key]));
    if (event.shiftKey) {
      if (state.anchor < 0) state.anchor = index;
      upTo(to);
    }
    focusAt(to);
    return true;
  }
  if (event.key === " " && index >= 0) {
    toggle(index);
    return true;
  }
  if (event.key === "a" && (event.ctrlKey || event.metaKey)) {
    choose(state.entries.map((entry) => entry.path));
    return true;
  }
  return false;
}

export const current = () => state.entries[focused()];

rows?.addEventListener("click", pressed);
at("all")?.addEventListener("change", (event) => choose(event.target.checked ? state.entries.map((e) => e.path) : []));
at("more")?.addEventListener("click", () => more().catch((error) => say(error.message)));
