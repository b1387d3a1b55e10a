// Questions to the person: a name, a yes, what to do about a name that is taken.
import { make, text } from "./dom.js";

const dialog = document.getElementById("browser-dialog");

// Shows ``content`` with buttons; resolves with the chosen value, null when it was dismissed.
export function ask(title, content, choices) {
  const form = make("form", { method: "dialog" });
  const foot = make("div", { class: "sheet-foot" });
  for (const [value, words, css] of choices) {
    foot.append(make("button", { type: "submit", value, class: `btn ${css ?? ""}` }, words));
  }
  // Enter in a field is the last button, not the first.
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("input:not([type=checkbox])")) {
      event.preventDefault();
      foot.lastElementChild.click();
    }
  });
  form.append(make("h2", { id: "browser-dialog-title" }, title), ...content, foot);
  dialog.replaceChildren(form);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue || null), { once: true });
  });
}

export async function askName(title, value = "") {
  const input = make("input", {
    class: "form-control",
    id: "browser-dialog-name",
    autocomplete: "off",
    maxlength: "255",
    "aria-labelledby": "browser-dialog-title",
  });
  input.value = value;
  const wrong = make("p", { class: "text-danger", role: "alert" });
  const answering = ask(title, [input, wrong], [
    ["", text("cancel")],
    ["ok", text("ok"), "btn-primary"],
  ]);
  input.focus();
  const answer = await answering;
  return answer && input.value.trim() ? input.value.trim() : null;
}

// ``fill(line)`` may go on changing what is said while the question stands.
export async function askDelete(title, fill) {
  const line = make("p", {}, text("counting"));
  const undo = make("p", { class: "text-secondary" });
  const stop = new AbortController();
  const answering = ask(title, [line, undo], [
    ["", text("cancel")],
    ["ok", text("delete"), "btn-danger"],
  ]);
  fill(line, undo, stop.signal);
  const answer = await answering;
  stop.abort();
  return answer !== null;
}

export async function askConflict(name) {
  const all = make("input", { type: "checkbox", class: "form-check-input", id: "browser-for-all" });
  const label = make("label", { for: "browser-for-all", class: "browser-check" }, all, text("for_all"));
  const answer = await ask(text("conflict", { name }), [make("p", {}, text("conflict_text")), label], [
    ["skip", text("skip")],
    ["keep-both", text("keep_both")],
    ["replace", text("replace"), "btn-primary"],
  ]);
  return { answer: answer ?? "skip", all: all.checked };
}


