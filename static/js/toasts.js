// Messages at the corner. Good news leaves by itself, bad news stays until it is closed.
const box = document.getElementById("toasts");
const MOST = 4;

function arm(note, after) {
  if (note.dataset.armed) return;
  note.dataset.armed = "yes";
  const level = note.dataset.toast;
  const stay = after ?? (level === "error" || level === "warning" ? 0 : 7000);
  if (stay) setTimeout(() => note.remove(), stay);
}

function tidy() {
  const notes = [...box.querySelectorAll("[data-toast]")];
  const seen = new Map();
  for (const note of notes) {
    const text = note.textContent.trim();
    seen.get(text)?.remove(); // the same sentence once
    seen.set(text, note);
    arm(note);
  }
  const left = [...box.querySelectorAll("[data-toast]")];
  for (const note of left.slice(0, Math.max(0, left.length - MOST))) note.remove();
}

export function toast(text, level = "info", after = undefined) {
  if (!box || !text) return;
  const note = document.createElement("div");
  note.className = `note note-${level}`;
  note.dataset.toast = level;
  const icon = document.createElement("i");
  icon.className = `ti ti-${level === "error" ? "alert-triangle" : level === "success" ? "circle-check" : "info-circle"}`;
  icon.setAttribute("aria-hidden", "true");
  const words = document.createElement("div");
  words.className = "note-text";
  words.textContent = text;
  note.append(icon, words);
  box.append(note);
  arm(note, after);
}

if (box) {
  tidy();
  new MutationObserver(tidy).observe(box, { childList: true, subtree: true });
  box.addEventListener("click", (event) => {
    if (event.target.closest("[data-toast-close]")) event.target.closest("[data-toast]").remove();
  });
  document.addEventListener("htmx:sendError", () => toast(document.body.dataset.textOffline, "error"));
}
