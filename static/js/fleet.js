// Every GPU as a cell of one canvas: drawn anew when the data, the colours or the width change.
// The table of the same page has all of it in words; without this script it is what there is.
import { zone } from "./zone.js";

const EVERY_MS = 10000;
const STEP_S = 300; // the slider's
const [UNHEALTHY, SHARED, SIMULATED] = [1, 2, 4];
const STATES = ["up", "cordoned", "closed", "down"];
const SMALL = 14; // of a cell, with its gap; where there are few they are larger
const LARGER = [[96, 30], [600, 20]]; // up to so many
let pitch = SMALL;
const GAP = 2;
const LABEL = 18;
const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7f6bd6", "#999933"];

const box = document.getElementById("fleet");
const now = () => document.getElementById("fleet-now");

function refreshWords() {
  if (now() && !now().contains(document.activeElement)) window.htmx?.trigger(now(), "live");
}

if (!box) {
  setInterval(() => document.hidden || refreshWords(), EVERY_MS);
} else {
  start();
}

function start() {
  const text = box.dataset;
  const canvas = document.getElementById("fleet-canvas");
  const card = document.getElementById("fleet-card");
  const colour = document.getElementById("fleet-colour");
  const slider = document.getElementById("fleet-at");
  const when = document.getElementById("fleet-when");
  const note = document.getElementById("fleet-note");
  let data = null;
  let cells = []; // {x, y, cell, node, group}
  let focused = -1;
  let asked = 0;

  const address = new URL(location.href);
  colour.value = address.searchParams.get("colour") || "utilisation";
  if (colour.selectedIndex < 0) colour.selectedIndex = 0;

  // --- colours ----------------------------------------------------------------------------
  let theme = {};
  function readTheme() {
    const style = getComputedStyle(document.body);
    const css = (name) => style.getPropertyValue(name).trim();
    theme = {
      ramp: [0, 1, 2, 3, 4, 5].map((n) => css(`--fleet-${n}`)),
      unknown: css("--fleet-unknown"),
      line: css("--berth-quiet"),
      grid: css("--berth-line"),
      text: css("--berth-text"),
      surface: css("--berth-surface"),
      bad: css("--berth-state-failed"),
      good: css("--berth-state-running"),
      wait: css("--berth-state-waiting"),
      focus: css("--berth-focus"),
    };
  }
  const step = (part) => theme.ramp[Math.max(0, Math.min(5, Math.ceil(part * 5)))];
  function hash(words) {
    let found = 0;
    for (const char of words) found = (found * 31 + char.codePointAt(0)) >>> 0;
    return found;
  }
  const of = (words) => PALETTE[hash(words) % PALETTE.length];

  function fill(one, node, by) {
    const [kind, owner, rate, memory, bits, since] = one;
    if (by === "kind") return PALETTE[kind % PALETTE.length];
    if (by === "health") return bits & UNHEALTHY || STATES[node[1]] === "down" ? theme.bad : node[1] ? theme.wait : theme.good;
    if (owner === -1) return null; // free: hollow
    if (by === "owner") {
      const holder = owner >= 0 ? data.holders[owner] : null;
      return holder ? of(holder[2]) : theme.line;
    }
    if (by === "age") return since ? step(Math.min(1, Math.log2(1 + (Date.now() / 1000 - since) / 3600) / 8)) : theme.unknown;
    const figure = by === "memory" ? memory : rate;
    return figure === null ? theme.unknown : step(figure / 100);
  }

  // --- one cell: free is hollow, unknown has a dot, unhealthy a hatch, reserved an outline ----
  function paint(pen, x, y, one, node, by, size = pitch - GAP) {
    const painted = fill(one, node, by);
    pen.lineWidth = 1;
    if (painted) {
      pen.fillStyle = painted;
      pen.fillRect(x, y, size, size);
    } else {
      pen.strokeStyle = theme.line;
      pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    }
    const figure = by === "memory" ? one[3] : one[2];
    if ((by === "utilisation" || by === "memory") && figure === null && one[1] !== -1) {
      pen.fillStyle = theme.text;
      pen.fillRect(x + size / 2 - 1, y + size / 2 - 1, 2, 2);
    }
    if (one[1] === -2) { // somebody else's pod: a bar below
      pen.fillStyle = theme.text;
      pen.fillRect(x, y + size - 2, size, 2);
    }
    if (one[4] & UNHEALTHY || STATES[node[1]] === "down") hatch(pen, x, y, size, by === "health" ? theme.surface : theme.bad);
    else if (node[1]) hatch(pen, x, y, size, by === "health" ? theme.surface : theme.line, 1);
    if (node[2]) {
      pen.strokeStyle = theme.text;
      pen.lineWidth = 1.5;
      pen.strokeRect(x + 0.75, y + 0.75, size - 1.5, size - 1.5);
    }
  }

  function hatch(pen, x, y, size, ink, lines = 3) {
    pen.save();
    pen.beginPath();
    pen.rect(x, y, size, size);
    pen.clip();
    pen.strokeStyle = ink;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (let n = 0; n < lines; n++) {
      const at = ((2 * n + 1) * size) / lines;
      pen.moveTo(x + at, y);
      pen.lineTo(x + at - 2 * size, y + 2 * size);
    }
    pen.stroke();
    pen.restore();
  }

  // --- where everything stands ---------------------------------------------------------------
  function layout(width) {
    cells = [];
    const heads = [];
    let y = 0;
    let unitBefore = null;
    for (const group of data.groups) {
      const [cluster, unit, rack, nodes] = group;
      const head = [cluster, unit].filter(Boolean).join(" · ");
      if (head !== unitBefore) {
        y += unitBefore === null ? 0 : 10;
        heads.push([head, 0, y + 12, true]);
        y += LABEL;
        unitBefore = head;
      }
      if (rack) {
        heads.push([rack, 0, y + 11, false]);
        y += LABEL;
      }
      const most = Math.max(...nodes.map((node) => node[3].length));
      const wide = Math.min(most, 8); // a node is so many cells wide, and as high as it needs
      const high = Math.ceil(most / wide);
      const each = wide * pitch + 8;
      const across = Math.max(1, Math.floor((width + 8) / each));
      nodes.forEach((node, number) => {
        const left = (number % across) * each;
        const top = y + Math.floor(number / across) * (high * pitch + 6);
        node[3].forEach((cell, at) => {
          cells.push({ x: left + (at % wide) * pitch, y: top + Math.floor(at / wide) * pitch, cell, node, group, at });
        });
      });
      y += Math.ceil(nodes.length / across) * (high * pitch + 6) + 4;
    }
    return [heads, y];
  }

  function draw() {
    if (!data) return;
    readTheme();
    const count = data.groups.reduce((sum, group) => sum + group[3].reduce((n, node) => n + node[3].length, 0), 0);
    pitch = (LARGER.find(([most]) => count <= most) || [0, SMALL])[1];
    const width = box.clientWidth - 2;
    const [heads, height] = layout(width);
    const sharp = Math.min(2, devicePixelRatio || 1);
    canvas.width = width * sharp;
    canvas.height = height * sharp;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(sharp, sharp);
    const font = getComputedStyle(document.body).fontFamily;
    for (const [words, x, y, isHead] of heads) {
      pen.fillStyle = isHead ? theme.text : theme.line;
      pen.font = `${isHead ? 600 : 400} ${isHead ? 13 : 12}px ${font}`;
      pen.fillText(words, x, y);
    }
    for (const one of cells) paint(pen, one.x, one.y, one.cell, one.node, colour.value);
    if (cells[focused]) {
      const { x, y } = cells[focused];
      pen.strokeStyle = theme.focus;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, y - 1, pitch, pitch);
    }
    legend();
  }

  function legend() {
    const place = document.getElementById("fleet-legend");
    const by = colour.value;
    const plain = ["", 0, 0, []];
    const held = (rate, memory = rate) => [0, 0, rate, memory, 0, 0];
    const shown = [];
    if (by === "utilisation" || by === "memory") {
      for (const part of [0, 50, 100]) shown.push([held(part), plain, `${part} %`]);
      shown.push([held(null), plain, text.textUnknown]);
    }
    if (by === "age") {
      const ago = (hours) => [0, 0, 0, 0, 0, Date.now() / 1000 - hours * 3600];
      shown.push([ago(1), plain, text.textHour], [ago(24), plain, text.textDay], [ago(240), plain, text.textTen]);
    }
    if (by === "kind") data.kinds.forEach((kind, n) => shown.push([[n, 0, 0, 0, 0, 0], plain, kind]));
    if (by === "owner") {
      const seen = new Map();
      data.holders.forEach((holder, n) => holder && !seen.has(holder[2]) && seen.set(holder[2], n));
      for (const [project, n] of [...seen].slice(0, 8)) shown.push([[0, n, 0, 0, 0, 0], plain, project]);
      const other = data.holders.indexOf(null);
      if (other >= 0) shown.push([[0, other, 0, 0, 0, 0], plain, text.textOther]);
    }
    if (by === "health") shown.push([held(0), plain, text.textHealthy]);
    if (by !== "health" && by !== "kind") shown.push([[0, -1, 0, 0, 0, 0], plain, text.textFree]);
    shown.push([[0, -1, 0, 0, UNHEALTHY, 0], plain, text.textUnhealthy]);
    const some = (like) => data.groups.some((group) => group[3].some(like));
    if (some((node) => node[1] === 1 || node[1] === 2)) {
      shown.push([[0, -1, 0, 0, 0, 0], ["", 1, 0, []], text.textCordoned]);
    }
    if (some((node) => node[2])) {
      shown.push([[0, -1, 0, 0, 0, 0], ["", 0, 1, []], text.textReserved]);
    }
    place.replaceChildren(...shown.map(([cell, node, words]) => {
      const item = document.createElement("span");
      const swatch = document.createElement("canvas");
      swatch.width = swatch.height = SMALL * 2;
      swatch.setAttribute("aria-hidden", "true");
      const pen = swatch.getContext("2d");
      pen.scale(2, 2);
      paint(pen, 1, 1, cell, node, by, SMALL - GAP);
      item.append(swatch, words);
      return item;
    }));
  }

  // --- what is said of one ------------------------------------------------------------------
  function words({ cell, node, group, at }) {
    const [kind, owner, rate, memory, bits, since] = cell;
    const holder = owner >= 0 ? data.holders[owner] : null;
    const percent = (figure) => (figure === null ? text.textUnknown : `${figure} %`);
    const lines = [[group[0], group[1], group[2], node[0]].filter(Boolean).join(" · ")];
    lines.push(`${text.textGpu} ${at + 1}, ${data.kinds[kind]}`);
    if (owner === -1) lines.push(text.textFree);
    else if (owner === -2) lines.push(text.textForeign);
    else lines.push(holder ? `${holder[0]} (${holder[1]}, ${holder[2]})` : text.textOther);
    lines.push(`${text.textUtilisation}: ${percent(rate)}`, `${text.textMemory}: ${percent(memory)}`);
    if (since) lines.push(`${text.textSince} ${clock(since * 1000, true)}`);
    if (bits & UNHEALTHY) lines.push(text.textUnhealthy);
    if (node[1]) lines.push(text[`text${STATES[node[1]][0].toUpperCase()}${STATES[node[1]].slice(1)}`]);
    if (node[2]) lines.push(text.textReserved);
    if (bits & SHARED) lines.push(text.textShared);
    if (bits & SIMULATED) lines.push(text.textSimulated);
    return lines;
  }

  const clock = (ms, day = false) =>
    new Date(ms).toLocaleString(document.documentElement.lang, {
      ...(day ? { month: "short", day: "numeric" } : {}),
      hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone,
    });

  function show(number, x, y) {
    const one = cells[number];
    card.hidden = !one;
    if (!one) return;
    card.replaceChildren(...words(one).map((line, n) => {
      const node = document.createElement("p");
      if (n === 0) node.className = "fleet-card-title";
      node.textContent = line;
      return node;
    }));
    const { width, height } = card.getBoundingClientRect();
    card.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
    card.style.top = `${y + 18 + height > innerHeight ? y - height - 10 : y + 18}px`;
  }

  function at(event) {
    const edge = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - edge.left, event.clientY - edge.top];
    return cells.findIndex((one) => x >= one.x && x < one.x + pitch && y >= one.y && y < one.y + pitch);
  }

  const open = (number) => {
    const holder = cells[number] && cells[number].cell[1] >= 0 && data.holders[cells[number].cell[1]];
    if (holder) location.assign(holder[3]);
  };

  canvas.addEventListener("pointermove", (event) => {
    const number = at(event);
    show(number, event.clientX, event.clientY);
    canvas.style.cursor = number >= 0 && data.holders[cells[number].cell[1]] ? "pointer" : "";
  });
  canvas.addEventListener("pointerleave", () => show(-1));
  canvas.addEventListener("click", (event) => open(at(event)));

  // The nearest one in a direction; left and right go on along the line.
  function beside(number, key) {
    if (key === "Home") return 0;
    if (key === "End") return cells.length - 1;
    if (key === "ArrowRight") return Math.min(cells.length - 1, number + 1);
    if (key === "ArrowLeft") return Math.max(0, number - 1);
    const here = cells[number];
    const down = key === "ArrowDown" ? 1 : -1;
    let best = number;
    let least = Infinity;
    cells.forEach((one, n) => {
      const far = (one.y - here.y) * down;
      if (far <= 0) return;
      const cost = far * 1000 + Math.abs(one.x - here.x);
      if (cost < least) [least, best] = [cost, n];
    });
    return best;
  }

  box.addEventListener("keydown", (event) => {
    if (!cells.length) return;
    if (event.key === "Enter") return open(focused);
    if (event.key === "Escape") return show(-1);
    if (!["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    focused = focused < 0 ? 0 : beside(focused, event.key);
    draw();
    const { x, y } = cells[focused];
    if (y < box.scrollTop) box.scrollTop = y - pitch;
    if (y + pitch * 2 > box.scrollTop + box.clientHeight) box.scrollTop = y + pitch * 2 - box.clientHeight;
    const edge = canvas.getBoundingClientRect();
    show(focused, edge.left + x, edge.top + y);
  });
  box.addEventListener("blur", () => {
    focused = -1;
    show(-1);
    draw();
  });

  // --- what is drawn, now or as it was ---------------------------------------------------------
  function moment() {
    const steps = Number(slider.value);
    return steps ? new Date(Math.floor(Date.now() / 60000) * 60000 + steps * STEP_S * 1000) : null;
  }

  async function read() {
    const past = moment();
    const url = new URL(box.dataset.url, location.href);
    if (past) url.searchParams.set("at", past.toISOString());
    const mine = ++asked;
    try {
      const answer = await fetch(url, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(String(answer.status));
      const found = await answer.json();
      if (mine !== asked) return; // a later question is under way
      data = found;
      const known = cell => cell[2] !== null || cell[3] !== null;
      const empty = past && !data.groups.some((g) => g[3].some((node) => node[3].some(known)));
      note.textContent = empty ? text.textPast : "";
      note.hidden = !empty;
      draw();
    } catch {
      if (mine !== asked) return;
      note.textContent = text.textError;
      note.hidden = false;
    }
  }

  let soon = null;
  slider.addEventListener("input", () => {
    const past = moment();
    when.textContent = past ? clock(past) : text.textNow;
    slider.setAttribute("aria-valuetext", when.textContent);
    clearTimeout(soon);
    soon = setTimeout(read, 150);
  });
  colour.addEventListener("change", () => {
    const there = new URL(location.href);
    there.searchParams.set("colour", colour.value);
    history.replaceState(null, "", there);
    document.querySelector(".filters [name=colour]").value = colour.value; // a filter keeps it
    draw();
  });
  new ResizeObserver(draw).observe(box);
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
  setInterval(() => {
    if (document.hidden || moment()) return;
    read();
    refreshWords();
  }, EVERY_MS);
  document.addEventListener("visibilitychange", () => document.hidden || moment() || read());
  read();
}
