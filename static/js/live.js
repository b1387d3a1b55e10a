// Live parts: an element with data-live="topic topic" refreshes itself (hx-trigger="live")
// when one of its topics changed. One event stream per page; polling only while it is broken.
// Topics: user:<uid>, project:<uid>, <kind of work>:<uid>, operators.
const url = document.body.dataset.liveUrl;
const POLL_MS = 5000;
const stale = new Set();
let source = null;
let openFor = "";
let failures = 0;
let poll = null;
// When the oldest that is shown and not followed yet was asked for, in ms since the navigation.
let asked = 0;

const marked = () => [...document.querySelectorAll("[data-live]")];
const topicsOf = (node) => node.dataset.live.split(/\s+/).filter(Boolean);

const typesIn = (node) =>
  node.contains(document.activeElement) &&
  document.activeElement.matches("input:not(.row-mark), textarea, select");

function selectsIn(node) {
  const selection = getSelection();
  return !selection.isCollapsed && node.contains(selection.anchorNode);
}

// A press lasts from down to up: what is put in its place between the two gets no click. So it is
// with the space bar on a button; Enter clicks as it goes down.
let pressed = null;
let release = null;
function press(target) {
  clearTimeout(release);
  pressed = target;
}
function letGo() {
  clearTimeout(release);
  release = setTimeout(() => { // the click comes first
    pressed = null;
    if (stale.size) wake();
  }, 200);
}
document.addEventListener("pointerdown", (event) => event.button === 0 && press(event.target), true);
document.addEventListener("keydown", (event) => event.key === " " && press(event.target), true);
document.addEventListener("keyup", (event) => event.key === " " && letGo(), true);
for (const end of ["pointerup", "pointercancel", "contextmenu"]) {
  document.addEventListener(end, letGo, true);
}
addEventListener("blur", () => pressed && letGo()); // nobody tells when a key goes up elsewhere

// A mark in a list is kept by what shows it (rows.js): it is nothing that is typed.
// An open question would be closed by what takes its place.
const chooses = (node) => Boolean(node.querySelector(".row-menu .show, :popover-open"));

const inUse = (node) =>
  typesIn(node) || selectsIn(node) || chooses(node) || node.contains(pressed);

function refresh(nodes) {
  for (const node of nodes) {
    // never under the hands of somebody who types, marks text or presses, nor in a tab that nobody sees
    if (document.hidden || inUse(node)) stale.add(node);
    else if (node.isConnected) window.htmx?.trigger(node, "live");
  }
}

// What was typed, ticked or opened and is not sent is so again after a refresh: a field in another
// place of the page has the focus meanwhile, or a button.
const FIELDS = "input:not([type=hidden]):not(.row-mark), textarea, select";
const placeOf = (field) => [field.form?.getAttribute("action"), field.form?.id, field.name || field.id,
  field.type === "checkbox" || field.type === "radio" ? field.value : ""].join("|");
const isTicked = (field) => field.type === "checkbox" || field.type === "radio";
function isEdited(field) {
  if (isTicked(field)) return field.checked !== field.defaultChecked;
  if (field.localName !== "select") return field.value !== field.defaultValue;
  return [...field.options].some((option) => option.selected !== option.defaultSelected)
    && [...field.options].some((option) => option.defaultSelected);
}
let edited = null;

function keepEdited(node) {
  const fields = [...node.querySelectorAll(FIELDS)].filter(isEdited);
  const opened = [...node.querySelectorAll("details[open]:not([name])")];
  edited = {
    id: node.id,
    fields: fields.map((field) => [placeOf(field), isTicked(field) ? field.checked : field.value]),
    opened: opened.map((one) => one.querySelector("summary")?.textContent.trim()),
  };
}

function putBack() {
  const node = edited && document.getElementById(edited.id);
  if (!node) return;
  for (const [place, value] of edited.fields) {
    const field = [...node.querySelectorAll(FIELDS)].find((one) => placeOf(one) === place);
    if (!field) continue;
    if (isTicked(field)) field.checked = value;
    else field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  for (const one of node.querySelectorAll("details:not([open])")) {
    if (edited.opened.includes(one.querySelector("summary")?.textContent.trim())) one.open = true;
  }
  edited = null;
}

// Who walks by keyboard is not thrown out: the same thing has the focus after a refresh.
const FOCUSABLE = "a[href], button, summary, .row-mark, [tabindex]";
let walked = null;

const markOf = (element) =>
  element.id || [element.localName, element.getAttribute("href"), element.getAttribute("formaction"),
    element.getAttribute("aria-label"), element.textContent.trim()].join("|");

document.addEventListener("htmx:beforeSwap", (event) => {
  const node = event.detail.target;
  const active = document.activeElement;
  walked = null;
  if (!node?.matches?.("[data-live]")) return;
  // It may be in use only since it was asked for. What was asked for by a press or a filter comes.
  if (event.detail.requestConfig?.elt === node && inUse(node)) {
    event.detail.shouldSwap = false;
    stale.add(node);
    return;
  }
  if (event.detail.requestConfig?.elt === node) keepEdited(node);
  if (active === node || !node.contains(active)) return;
  const all = [...node.querySelectorAll(FOCUSABLE)];
  const mark = markOf(active);
  const twins = all.filter((element) => markOf(element) === mark);
  walked = { id: node.id, mark, twin: twins.indexOf(active), at: all.indexOf(active) };
});

document.addEventListener("htmx:afterSettle", putBack);
document.addEventListener("htmx:afterSwap", () => {
  if (!walked || document.activeElement !== document.body) return;
  const all = [...(document.getElementById(walked.id)?.querySelectorAll(FOCUSABLE) ?? [])];
  const twins = all.filter((element) => markOf(element) === walked.mark);
  (twins[walked.twin] ?? all[Math.min(walked.at, all.length - 1)])?.focus({ preventScroll: true });
  walked = null;
});

const pending = new Set();
let soon = null;
function enqueue(nodes) {
  for (const node of nodes) pending.add(node);
  soon ??= setTimeout(() => {
    soon = null;
    const nodes = [...pending];
    pending.clear();
    refresh(nodes);
  }, 120);
}

// A message names one object (kind, uid): parts about another object of that kind stay as they are.
function changed(message) {
  const own = message.uid && `${message.kind}:${message.uid}`;
  const concerns = (topic) => !own || topic === own || !topic.startsWith(`${message.kind}:`);
  enqueue(marked().filter((node) => topicsOf(node).some(concerns)));
}

function startPolling() {
  poll ??= setInterval(() => refresh(marked()), POLL_MS);
}

function stopPolling() {
  clearInterval(poll);
  poll = null;
}

function connect() {
  const topics = [...new Set(marked().flatMap(topicsOf))].sort().join(",");
  const age = asked === null ? 0 : (performance.now() - asked) / 1000;
  asked = null;
  if (topics === openFor && source) return;
  source?.close();
  source = null;
  openFor = topics;
  if (!topics || !url) return;
  source = new EventSource(`${url}?topics=${encodeURIComponent(topics)}&age=${age.toFixed(1)}`);
  source.addEventListener("open", () => {
    if (failures) enqueue(marked()); // what was missed meanwhile
    failures = 0;
    stopPolling();
  });
  const take = (event) => {
    let message = {};
    try {
      message = JSON.parse(event.data);
    } catch {
      message = {};
    }
    changed(message);
  };
  source.addEventListener("changed", take);
  source.addEventListener("resync", () => enqueue(marked()));
  source.addEventListener("error", () => {
    failures += 1;
    if (failures >= 2) startPolling();
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(connect, 5000);
    }
  });
}

// Parts that count on their own (GPU bars) say how often, and only while somebody looks.
setInterval(() => {
  const moment = Math.floor(Date.now() / 1000);
  enqueue(
    document.hidden
      ? []
      : marked().filter((node) => node.dataset.liveEvery && moment % Number(node.dataset.liveEvery) === 0),
  );
}, 1000);

function wake() {
  const nodes = [...stale].filter((node) => node.isConnected);
  stale.clear();
  enqueue(nodes);
}

// A browser keeps six connections per host: a tab that nobody sees gives its stream back.
let parked = null;
document.addEventListener("visibilitychange", () => {
  clearTimeout(parked);
  if (document.hidden) {
    parked = setTimeout(() => {
      source?.close();
      source = null;
      parked = "closed";
      stopPolling();
    }, 10000);
    return;
  }
  if (parked === "closed") enqueue(marked()); // what was missed meanwhile
  parked = null;
  connect();
  wake();
});
document.addEventListener("hidden.bs.dropdown", () => stale.size && wake());
document.addEventListener("focusout", () => stale.size && setTimeout(wake, 200));
document.addEventListener("selectionchange", () => {
  if (stale.size && getSelection().isCollapsed) setTimeout(wake, 200);
});
document.addEventListener("htmx:beforeRequest", () => {
  asked ??= performance.now();
});
document.addEventListener("htmx:afterSettle", connect);
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  openFor = "";
  connect();
  enqueue(marked()); // what was missed meanwhile
});
connect();
