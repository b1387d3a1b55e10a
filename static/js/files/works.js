// Work that the server does while one waits: how far it is, and an end to it.
import { at, button, duration, icon, make, note, size, text } from "./dom.js";

let begun = 0;

// One note that is written anew in place: its button keeps the focus and stays under the pointer.
// Closing the connection ends the work, so ``signal`` goes into every question.
export function work(shape, label) {
  const ending = new AbortController();
  const key = `work-${(begun += 1)}`;
  const words = make("p", { class: "mb-1" });
  const progress = make("progress", { class: "bar", max: "1", "aria-label": label });
  const rate = make("p", { class: "text-secondary mb-0" });
  const said = make("div", { class: "note-text" }, words, progress, rate);
  at("notes").append(
    make("div", { class: "note note-info mb-2", "data-note": key }, icon(shape), said, button(text("cancel"), () => ending.abort())),
  );
  let from = null;
  return {
    signal: ending.signal,
    say: (words_) => {
      words.textContent = words_;
    },
    // Where it is known how much there is: then there are a share, a rate and an estimate.
    far: (bytes, of) => {
      from ??= { at: Date.now(), bytes };
      progress.value = Math.min(1, bytes / of);
      const speed = (bytes - from.bytes) / ((Date.now() - from.at) / 1000 || 1);
      rate.textContent = speed > 0 ? text("rate", { rate: size(speed), left: duration(Math.max(0, of - bytes) / speed) }) : "";
    },
    over: () => {
      ending.abort();
      note(key);
    },
  };
}
