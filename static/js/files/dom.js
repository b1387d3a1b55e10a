// Small things that the modules of the files page share.
import { zone } from "../zone.js";

export const box = document.getElementById("browser");
export const at = (id) => document.getElementById(`browser-${id}`);

const words = JSON.parse(box?.dataset.words ?? "{}");
const language = document.documentElement.lang || undefined;

// Says a text of the page; of exactly one thing the singular, where there is one.
export function text(key, values = {}) {
  const single = String(values.n) === "1" ? words[`${key}_one`] : undefined;
  const found = single ?? words[key] ?? key;
  return found.replace(/%\((\w+)\)s/g, (_all, name) => values[name] ?? "");
}

export const number = (n) => Number(n).toLocaleString(language);

// So many of something: "1 file", "2 files".
export const count = (what, n) => text(what, { n: number(n) });

export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let value = Number(bytes) || 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit ? value.toFixed(value < 10 ? 1 : 0) : value}\u00a0${units[unit]}`;
}

export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  const said = (n, unit) => text(unit, { n: number(n) });
  if (s < 60) return said(s, "s");
  if (s < 3600) return `${said(Math.floor(s / 60), "min")} ${said(s % 60, "s")}`;
  return `${said(Math.floor(s / 3600), "h")} ${said(Math.floor((s % 3600) / 60), "min")}`;
}

const day = (date) => date.toLocaleDateString("en", { timeZone: zone });

export function when(seconds) {
  const date = new Date(seconds * 1000);
  const time = document.createElement("time");
  if (Number.isNaN(date.getTime())) return time;
  time.dateTime = date.toISOString();
  time.title = date.toLocaleString(language, { timeZone: zone });
  time.textContent = day(date) === day(new Date())
    ? date.toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit", timeZone: zone })
    : date.toLocaleDateString(language, { year: "numeric", month: "short", day: "numeric", timeZone: zone });
  return time;
}

// make("td", {class: "end"}, "text", child, …). Text is always text, never HTML.
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const icon = (name) => make("i", { class: `ti ti-${name}`, "aria-hidden": "true" });

export const button = (words_, then, css = "btn btn-sm") =>
  make("button", { type: "button", class: css, onclick: then }, words_);

// A name as it is, whatever direction its letters have.
export const named = (name) => make("bdi", {}, name);

const stateLine = at("state");
export function say(words_) {
  if (stateLine) stateLine.textContent = words_;
}

// A note that stays until it is closed or replaced; ``acts`` are buttons in it.
export function note(key, level, words_, ...acts) {
  const notes = at("notes");
  notes.querySelector(`[data-note="${key}"]`)?.remove();
  if (!words_) return;
  const shapes = { error: "alert-triangle", success: "circle-check" };
  notes.append(
    make(
      "div",
      { class: `note note-${level} mb-2`, "data-note": key, role: level === "error" ? "alert" : null },
      icon(shapes[level] ?? "info-circle"),
      make("div", { class: "note-text" }, words_),
      ...acts,
      make("button", {
        type: "button",
        class: "btn-close",
        "aria-label": text("close"),
        onclick: () => note(key),
      }),
    ),
  );
}

// --- paths: percent-encoded bytes, as the gate wants them ------------------------------------

export const encode = (name) =>
  encodeURIComponent(name).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
export const below = (folder, name) => (folder ? `${folder}/${encode(name)}` : encode(name));
export const parent = (path) => path.split("/").slice(0, -1).join("/");
export function shownName(path) {
  const last = path.split("/").pop();
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}
