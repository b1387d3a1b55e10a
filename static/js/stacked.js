// Areas on top of each other over the steps of the table that stands behind the chart.
import { stack } from "./plots.js";
import { zone } from "./zone.js";

const lang = document.documentElement.lang;

const day = (seconds) =>
  new Date(seconds * 1000).toLocaleDateString(lang, { day: "numeric", month: "short", timeZone: "UTC" });
const hour = (seconds) =>
  new Date(seconds * 1000).toLocaleTimeString(lang, {
    hour: "2-digit",
    hourCycle: "h23",
    minute: "2-digit",
    timeZone: zone,
  });

function draw(box) {
  const rows = [...document.getElementById(box.dataset.stack).querySelectorAll("[data-at]")];
  const times = rows.map((row) => Date.parse(row.dataset.at) / 1000);
  const parts = rows.map((row) => [...row.querySelectorAll("[data-of]")].map((cell) => Number(cell.dataset.of)));
  const groups = parts[0].map((_one, n) => parts.map((of) => of[n]));
  box.replaceChildren();
  stack(box, times, groups, rows.map((row) => Number(row.dataset.supply)), {
    ticks: "hoursShown" in box.dataset ? hour : day,
    height: 240,
  });
}

for (const box of document.querySelectorAll("[data-stack]")) {
  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === width) return;
    width = box.clientWidth;
    draw(box);
  }).observe(box);
}
