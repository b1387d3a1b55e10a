// The panel beside the list: what is in a file, as far as it can be shown safely.
import { at, button, icon, make, named, number, size, text, when } from "./dom.js";
import { ask, json, link as linkTo } from "./gate.js";
import { notebook } from "./notebook.js";
import { picture } from "./picture.js";

const panel = at("preview");
let turn = 0;

export function close() {
  turn += 1;
  panel.hidden = true;
  panel.replaceChildren();
}

export async function open(entry) {
  const mine = (turn += 1);
  const body = make("div", { class: "browser-preview-body", tabindex: "0" }, make("p", {}, text("loading")));
  const link = make("a", { class: "btn btn-sm", href: linkTo("file", { path: entry.path }), download: "" }, icon("download"), text("download"));
  const head = make(
    "div",
    { class: "browser-preview-head" },
    make("h2", {}, named(entry.name)),
    make("p", { class: "text-secondary" }, `${size(entry.size)} · `, when(entry.modified)),
    make("div", { class: "browser-acts" }, link, button(text("close"), close)),
  );
  panel.replaceChildren(head, body);
  panel.hidden = false;
  panel.setAttribute("aria-label", text("preview", { name: entry.name }));
  let parts;
  try {
    parts = await contents(entry, await json("preview", { query: { path: entry.path } }));
  } catch (error) {
    parts = [make("p", { class: "text-secondary" }, error.message)];
  }
  if (mine === turn) body.replaceChildren(...parts);
}

async function contents(entry, said) {
  if (said.kind === "text") {
    const told = said.encoding === "utf-8" ? "" : text("encoding", { encoding: said.encoding });
    return [
      make("pre", { class: "browser-text", dir: "auto" }, said.text),
      make("p", { class: "text-secondary" }, [told, said.truncated ? text("cut") : ""].join(" ")),
    ];
  }
  if (said.kind === "notebook") {
    return [
      make("p", { class: "text-secondary" }, text("cells", { n: number(said.cells.length) })),
      notebook(said),
      make("p", { class: "text-secondary" }, said.truncated ? text("cut") : ""),
    ];
  }
  if (said.kind === "image") {
    if (!said.fits) return [make("p", { class: "text-secondary" }, text("too_large"))];
    const answer = await ask("raw", { query: { path: entry.path } });
    return [picture(await answer.blob(), text("image", { name: entry.name }))];
  }
  const rows = (said.head.match(/.{1,32}/g) ?? []).map((row) => row.match(/../g).join(" "));
  return [
    make("p", { class: "text-secondary" }, text("no_preview")),
    make("pre", { class: "browser-text" }, rows.join("\n")),
  ];
}
