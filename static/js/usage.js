// Small multiples of what a workspace used; read again every half minute while in front.
import uPlot from "/static/vendor/uplot/uPlot.esm.js";

const EVERY_MS = 30000;

const css = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();

function chart(box, title, unit, times, values, limit) {
  const part = document.createElement("div");
  part.className = "chart";
  const head = document.createElement("h3");
  head.textContent = title;
  const latest = [...values].reverse().find((value) => value !== null);
  const now = document.createElement("div");
  now.className = "now";
  now.textContent = latest === undefined ? "–" : `${latest.toFixed(latest < 10 ? 1 : 0)}${unit}`;
  part.append(head, now);
  box.append(part);
  const line = css("--berth-state-running");
  const quiet = css("--berth-quiet");
  const axis = { stroke: quiet, grid: { stroke: css("--berth-line"), width: 1 }, ticks: { show: false } };
  new uPlot(
    {
      width: part.clientWidth,
      height: 110,
      cursor: { show: false },
      legend: { show: false },
      scales: { y: { range: (_u, _min, max) => [0, Math.max(limit || 0, max || 1)] } },
      axes: [
        { ...axis, grid: { show: false }, space: 60 },
        { ...axis, size: 36 },
      ],
      series: [{}, { stroke: line, width: 1.5, fill: `color-mix(in oklab, ${line} 15%, transparent)`, spanGaps: false }],
    },
    [times, values],
    part,
  );
}

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
  box.replaceChildren();
  chart(box, dataset.textCpu, "", times, column("cpu_milli", 1000), dataset.cpuLimit / 1000);
  chart(box, dataset.textMemory, "", times, column("memory_mib", 1024), dataset.memoryLimit / 1024);
  if (Number(dataset.gpus)) chart(box, dataset.textGpu, " %", times, column("gpu_utilisation", 1), 100);
}

for (const box of document.querySelectorAll("[data-usage-url]")) {
  draw(box);
  setInterval(() => document.hidden || draw(box), EVERY_MS);
}
