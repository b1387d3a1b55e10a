// Live parts: an element with data-live="topic topic" refreshes itself (hx-trigger="live")
// when one of its topics changed. One event stream per page; polling only while it is broken.
// Topics: user:<uid>, project:<uid>, workspace:<uid>, operators.
const url = document.body.dataset.liveUrl;
const POLL_MS = 5000;
const stale = new Set();
let source = null;
let openFor = "";
let failures = 0;
let poll = null;

const marked = () => [...document.querySelectorAll("[data-live]")];
const topicsOf = (node) => node.dataset.live.split(/\s+/).filter(Boolean);

function refresh(nodes) {
  for (const node of nodes) {
    const busy = node.contains(document.activeElement) &&
      document.activeElement.matches("input, textarea, select");
    // never under the hands of somebody who types, nor in a tab that nobody sees
    if (document.hidden || busy) stale.add(node);
    else if (node.isConnected) window.htmx?.trigger(node, "live");
  }
}

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
  if (topics === openFor && source) return;
  source?.close();
  source = null;
  openFor = topics;
  if (!topics || !url) return;
  source = new EventSource(`${url}?topics=${encodeURIComponent(topics)}`);
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
document.addEventListener("focusout", () => stale.size && setTimeout(wake, 200));
document.addEventListener("htmx:afterSettle", connect);
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => event.persisted && ((openFor = ""), connect()));
connect();
