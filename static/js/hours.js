// Hours that were held, as bars over the days of the table that stands behind the chart.
import { bars, place, plot } from "./plots.js";

const DAY_S = 86400;
const lang = document.documentElement.lang;

const day = (seconds) =>
  new Date(seconds * 1000).toLocaleDateString(lang, { day: "numeric", month: "short", timeZone: "UTC" });

function draw(box) {
  const rows = [...document.getElementById(box.dataset.hours).querySelectorAll("[data-day]")];
  const days = rows.map((row) => Date.parse(row.dataset.day) / 1000);
  const step = days.length > 1 ? days[1] - days[0] : DAY_S;
  const charts = [
    [box.dataset.textGpu, rows.map((row) => Number(row.dataset.gpu))],
    [box.dataset.textCpu, rows.map((row) => Number(row.dataset.cpu))],
  ].filter(([, hours], i) => i || hours.some(Boolean)); // without a GPU there is nothing to see
  box.replaceChildren();
  const whole = (hours) => hours.reduce((sum, one) => sum + one, 0).toLocaleString(lang, { maximumFractionDigits: 1 });
  // All places first: each chart is as wide as its place once all are there.
  const places = charts.map(([title, hours]) => place(box, title, whole(hours)));
  charts.forEach(([, hours], i) =>
    plot(places[i], [days, hours], {
      x: () => [days[0] - step / 2, days[days.length - 1] + step / 2],
      y: (_u, _min, max) => [0, max || 1],
      ticks: day,
      paths: bars(),
      height: 160,
    }),
  );
}

for (const box of document.querySelectorAll("[data-hours]")) {
  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === width) return;
    width = box.clientWidth;
    draw(box);
  }).observe(box);
}
