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
