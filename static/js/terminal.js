// A shell of the container in the page: keys and screen over one WebSocket to the gate.
import "./terminal-styles.js";
import { forget, ticket } from "./ticket.js";

const box = document.getElementById("terminal");
const stateLine = document.getElementById("terminal-state");
const connectButton = document.getElementById("terminal-connect");
const SHORTEST = 1000;
const LONGEST = 15000;

let term = null;
let fit = null;
let socket = null;
let pause = SHORTEST;
let timer = null;
let typed = []; // before the shell has shown anything: it would be echoed twice
let awake = false;
let ran = false; // the workspace, when last looked
let over = false; // ended by itself or by the gate: only a press opens a new one

const say = (words) => {
  stateLine.textContent = words;
};
const text = (name) => box.dataset[`text${name}`];

function colours() {
  const style = getComputedStyle(box);
  const take = (name) => style.getPropertyValue(name).trim();
  const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
  const palette = {};
  for (const name of names) {
    palette[name] = take(`--terminal-${name}`);
    const bright = `bright${name[0].toUpperCase()}${name.slice(1)}`;
    palette[bright] = take(`--terminal-bright-${name}`);
  }
  return {
    ...palette,
    background: take("--terminal-background"),
    foreground: take("--terminal-foreground"),
    cursor: take("--terminal-foreground"),
    cursorAccent: take("--terminal-background"),
    selectionBackground: take("--terminal-selection"),
  };
}

async function start() {
  const [{ Terminal }, { FitAddon }] = await Promise.all([
    import(box.dataset.xterm),
    import(box.dataset.fit),
  ]);
  const style = getComputedStyle(box);
  term = new Terminal({
    fontFamily: style.getPropertyValue("--terminal-font").trim(),
    fontSize: 14,
    scrollback: 5000,
    cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    minimumContrastRatio: 4.5,
    theme: colours(),
  });
  fit = new FitAddon();
  term.loadAddon(fit);
  term.open(box);
  fit.fit();
  term.attachCustomKeyEventHandler(keys);
  term.onData((data) => type(new TextEncoder().encode(data)));
  term.onBinary((data) => type(Uint8Array.from(data, (c) => c.charCodeAt(0))));
  term.onResize(({ cols, rows }) => send(JSON.stringify({ type: "resize", cols, rows })));
  new ResizeObserver(() => fit.fit()).observe(box);
  new MutationObserver(() => {
    term.options.theme = colours();
  }).observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
  follow();
}

// Whether the workspace runs: the part of the page that says so is exchanged when that changes.
function follow() {
  const runs = document.querySelector("[data-running]").dataset.running === "1";
  if (runs === ran || !term) return;
  ran = runs;
  if (socket) return;
  if (runs) {
    pause = SHORTEST;
    connect();
  } else {
    rest();
  }
}

// There is no shell: a press opens one where the workspace runs, elsewhere the page says how to start it.
function rest() {
  clearTimeout(timer);
  connectButton.hidden = !ran;
  if (!ran) say("");
}

function keys(event) {
  if (event.type !== "keydown") return true;
  if (event.key === "Escape" && event.shiftKey) {
    event.preventDefault();
    document.getElementById("terminal-copy").focus();
    return false;
  }
  if (event.ctrlKey && event.shiftKey && event.code === "KeyC") {
    event.preventDefault();
    copy();
    return false;
  }
  if (event.ctrlKey && event.shiftKey && event.code === "KeyV") return false; // the browser pastes
  return true;
}

function send(data) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(data);
}

function type(data) {
  if (awake) send(data);
  else if (socket) typed.push(data);
}

function wake() {
  if (awake) return;
  awake = true;
  for (const data of typed) send(data);
  typed = [];
}

async function connect() {
  clearTimeout(timer);
  over = awake = false;
  typed = [];
  connectButton.hidden = true;
  say(text("Connecting"));
  fit.fit();
  const pass = await ticket(box.dataset.way).catch(() => "");
  if (socket || !ran) return; // meanwhile another one was opened, or the workspace stopped
  const mine = new WebSocket(
    `${box.dataset.socket}?cols=${term.cols}&rows=${term.rows}&ticket=${pass}`,
  );
  socket = mine;
  mine.binaryType = "arraybuffer";
  mine.addEventListener("message", (event) => {
    if (typeof event.data === "string") told(JSON.parse(event.data));
    else term.write(new Uint8Array(event.data), wake);
  });
  mine.addEventListener("close", () => {
    if (socket === mine) closed();
  });
}

function told(message) {
  if (message.type === "ready") {
    pause = SHORTEST;
    term.reset();
    say(text("Connected"));
    term.focus();
    setTimeout(wake, SHORTEST * 2); // a program without a prompt
    // the size may have changed while the shell was being started
    send(JSON.stringify({ type: "resize", cols: term.cols, rows: term.rows }));
  } else if (message.type === "ended") {
    over = true;
    if (message.code === null) say(`${text("Failed")} ${message.message}`);
    else say(`${text("Ended")} ${message.code}`);
  } else if (message.type === "error" && message.code !== "draining") {
    over = true;
    say(message.message);
  }
}

function closed() {
  socket = null;
  forget(box.dataset.way);
  box.dataset.connected = "0";
  if (!over && pause > LONGEST) {
    over = true;
    say(text("SignedOut"));
  }
  if (over || !ran) {
    rest();
    return;
  }
  say(text("Lost"));
  timer = setTimeout(connect, pause);
  pause *= 2;
}

async function copy() {
  const selected = term?.getSelection();
  if (selected) await navigator.clipboard?.writeText(selected);
}

async function paste() {
  try {
    term.paste(await navigator.clipboard.readText());
    term.focus();
  } catch {
    say(text("Denied"));
  }
}

if (box) {
  connectButton.addEventListener("click", () => {
    pause = SHORTEST;
    connect();
  });
  document.getElementById("terminal-copy").addEventListener("click", copy);
  document.getElementById("terminal-paste").addEventListener("click", paste);
  document.getElementById("terminal-reader").addEventListener("change", (event) => {
    term.options.screenReaderMode = event.target.checked;
  });
  addEventListener("pagehide", () => socket?.close());
  document.addEventListener("htmx:afterSettle", follow);
  start();
}
