// A test and its baseline as two lines over the rows of the table below.
import { pair } from "./plots.js";

const lang = document.documentElement.lang;
const KIB = 1024;

function size(bytes) {
  const step = Math.min(3, Math.floor(Math.log(bytes) / Math.log(KIB)));
  return `${(bytes / KIB ** step).toLocaleString(lang, { maximumFractionDigits: 0 })} ${["B", "KiB", "MiB", "GiB"][step]}`;
}

function draw(box) {
  const rows = [...document.getElementById(box.dataset.perftest).querySelectorAll("[data-at]")];
  const number = (text) => (text === "" ? null : Number(text));
  box.replaceChildren();
  pair(
    box,
    rows.map((row) => Number(row.dataset.at)),
    rows.map((row) => number(row.dataset.figure)),
    rows.map((row) => number(row.dataset.before)),
    { ticks: box.dataset.scaling ? (count) => String(count) : size, height: 220 },
  );
}

const widths = new WeakMap();
const seen = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (widths.get(target) === target.clientWidth) continue;
    widths.set(target, target.clientWidth);
    draw(target);
  }
});

function watch() {
  for (const box of document.querySelectorAll("[data-perftest]")) seen.observe(box);
}

watch();
document.addEventListener("htmx:afterSwap", watch); // it ended while somebody looked
