// Small multiples of what a workspace used; read again every half minute while in front.
import { place, plot } from "./plots.js";
import { zone } from "./zone.js";

const EVERY_MS = 30000;

const SPAN_S = 600; // the axis never shows less than ten minutes

function part(box, title, unit, values) {
  const latest = values.findLast((value) => value !== null);
  const words = latest === undefined ? "–" : `${latest.toFixed(latest < 10 ? 1 : 0)}${unit}`;
  return place(box, title, words);
}

function drawOne(node, times, values, limit) {
  const last = times[times.length - 1];
  plot(node, [times, values], {
    x: () => [Math.min(times[0], last - SPAN_S), last],
    y: (_u, _min, max) => [0, Math.max(limit || 0, max || 1)],
    ticks: clock,
  });
}

const clock = (seconds) =>
  new Date(seconds * 1000).toLocaleTimeString(document.documentElement.lang, {
    hour: "2-digit",
    hourCycle: "h23", // as the times in the tables
    minute: "2-digit",
    timeZone: zone,
  });

function note(box, words) {
  const line = document.createElement("p");
  line.className = "text-secondary mb-0";
  line.textContent = words;
  box.replaceChildren(line);
}

async function draw(box) {
  const { dataset } = box;
  let samples;
  try {
    const answer = await fetch(dataset.usageUrl, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(String(answer.status));
    samples = await answer.json();
  } catch {
    note(box, dataset.textError);
    return;
  }
  if (!samples.length) {
    note(box, dataset.textNone);
    return;
  }
  const times = samples.map((s) => Date.parse(s.at) / 1000);
  const column = (name, by) => samples.map((s) => (s[name] === null ? null : s[name] / by));
  const charts = [
    [dataset.textCpu, "", column("cpu_milli", 1000), dataset.cpuLimit / 1000],
    [dataset.textMemory, "", column("memory_mib", 1024), dataset.memoryLimit / 1024],
  ];
  if (Number(dataset.gpus)) {
    charts.push([dataset.textGpu, " %", column("gpu_utilisation", 1), 100]);
  }
  box.replaceChildren();
  // All places first: each chart is as wide as its place once all are there.
  const places = charts.map(([title, unit, values]) => part(box, title, unit, values));
  charts.forEach(([, , values, limit], i) => drawOne(places[i], times, values, limit));
}

for (const box of document.querySelectorAll("[data-usage-url]")) {
  draw(box);
  setInterval(() => document.hidden || draw(box), EVERY_MS);
}
