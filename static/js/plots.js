// What charts share: colours of the theme, axes, and a place with its title.
import uPlot from "/static/vendor/uplot/uPlot.esm.js";

const css = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();

export function place(box, title, words) {
  const node = document.createElement("div");
  node.className = "chart";
  const head = document.createElement("h3");
  head.textContent = title;
  const now = document.createElement("div");
  now.className = "now";
  now.textContent = words;
  node.append(head, now);
  box.append(node);
  return node;
}

// One series; ``options``: range of x and y, words of the ticks below, how it is drawn.
export function plot(node, data, { x, y, ticks, paths, height = 120 }) {
  const line = css("--berth-state-running");
  const axis = {
    stroke: css("--berth-quiet"),
    grid: { stroke: css("--berth-line"), width: 1 },
    ticks: { show: false },
  };
  return new uPlot(
    {
      width: node.clientWidth,
      height,
      cursor: { show: false },
      legend: { show: false },
      scales: { x: { range: x }, y: { range: y } },
      axes: [
        { ...axis, grid: { show: false }, space: 70, values: (_u, moments) => moments.map(ticks) },
        { ...axis, size: 40, space: 25 },
      ],
      series: [
        {},
        { stroke: line, width: 1.5, paths, points: { show: paths ? false : undefined },
          fill: `color-mix(in oklab, ${line} ${paths ? 60 : 15}%, transparent)` },
      ],
    },
    data,
    node,
  );
}

export const bars = () => uPlot.paths.bars({ size: [0.8, 48] });

// Groups on top of each other, as filled areas, and a line of what there was.
export function stack(node, times, groups, supply, { ticks, height }) {
  const sums = [];
  groups.forEach((values, n) => sums.push(values.map((value, i) => value + (n ? sums[n - 1][i] : 0))));
  const top = Math.max(1, ...supply, ...(sums.at(-1) || []));
  const axis = {
    stroke: css("--berth-quiet"),
    grid: { stroke: css("--berth-line"), width: 1 },
    ticks: { show: false },
  };
  const colour = (n) => css(`--stack-${Math.min(n + 1, 8)}`);
  // The highest first: each lower one is painted over it.
  const order = sums.map((_values, n) => sums.length - 1 - n);
  const paths = times.length > 1 ? undefined : bars();
  return new uPlot(
    {
      width: node.clientWidth,
      height,
      cursor: { show: false },
      legend: { show: false },
      scales: { y: { range: [0, top] } },
      axes: [
        { ...axis, grid: { show: false }, space: 70, values: (_u, moments) => moments.map(ticks) },
        { ...axis, size: 56, space: 30 },
      ],
      series: [
        {},
        ...order.map((n) => ({ stroke: colour(n), fill: colour(n), width: 1, paths, points: { show: false } })),
        { stroke: css("--berth-text"), width: 1.5, dash: [6, 4], points: { show: times.length < 2 } },
      ],
    },
    [times, ...order.map((n) => sums[n]), supply],
    node,
  );
}

// Two lines over doubling places, the second dashed: what was measured, and its baseline.
export function pair(node, places, values, before, { ticks, height }) {
  const axis = {
    stroke: css("--berth-quiet"),
    grid: { stroke: css("--berth-line"), width: 1 },
    ticks: { show: false },
  };
  const line = css("--berth-state-running");
  return new uPlot(
    {
      width: node.clientWidth,
      height,
      cursor: { show: false },
      legend: { show: false },
      scales: { x: { time: false, distr: 3, log: 2 }, y: { range: (_u, _min, max) => [0, (max || 1) * 1.1] } },
      axes: [
        { ...axis, grid: { show: false }, space: 60, values: (_u, at) => at.map((one) => (one === null ? "" : ticks(one))) },
        { ...axis, size: 56, space: 30 },
      ],
      series: [
        {},
        { stroke: line, width: 2, points: { show: true } },
        { stroke: css("--berth-text"), width: 1.5, dash: [6, 4], points: { show: false } },
      ],
    },
    [places, values, before],
    node,
  );
}
