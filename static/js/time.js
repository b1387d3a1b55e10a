// Keeps <time data-relative> and [data-countdown] current; the server already rendered the text.
const lang = document.documentElement.lang || "en";
const format = new Intl.RelativeTimeFormat(lang, { numeric: "always" });
const units = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
];

export function relative(seconds) {
  const size = Math.abs(seconds);
  for (const [unit, length] of units) {
    if (size >= length) {
      const count = Math.floor(size / length);
      return format.format(seconds < 0 ? -count : count, unit);
    }
  }
  return null;
}

export function clockText(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const pad = (n) => String(n).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const rest = `${pad(Math.floor(whole / 60) % 60)}:${pad(whole % 60)}`;
  return hours ? `${hours}:${rest}` : rest;
}

function tick() {
  if (document.hidden) return;
  for (const node of document.querySelectorAll("time[data-relative]")) {
    const text = relative((Date.parse(node.dateTime) - Date.now()) / 1000);
    if (text && node.textContent !== text) node.textContent = text;
  }
  for (const node of document.querySelectorAll("[data-countdown]")) {
    node.textContent = clockText((Date.parse(node.dataset.countdown) - Date.now()) / 1000);
  }
  for (const node of document.querySelectorAll("[data-elapsed]")) {
    node.textContent = clockText((Date.now() - Date.parse(node.dataset.elapsed)) / 1000);
  }
}

let timer = null;
function schedule() {
  clearTimeout(timer);
  tick();
  // every second only where something counts seconds
  const fast = document.querySelector("[data-countdown], [data-elapsed]");
  timer = setTimeout(schedule, fast ? 1000 : 20000);
}
schedule();
document.addEventListener("visibilitychange", schedule);
document.addEventListener("htmx:afterSettle", schedule);
