// A notebook as plain cells. Everything in it is text or a picture drawn on a canvas: what a
// notebook brings is never taken for HTML.
import { make, text } from "./dom.js";
import { picture } from "./picture.js";

export function notebook(said) {
  const shown = said.cells.map((cell) => (cell.type === "code" ? code(cell) : words(cell)));
  return make("div", { class: "nb" }, ...shown);
}

function code(cell) {
  const label = make("span", { class: "nb-count" }, text("in", { n: cell.count ?? " " }));
  const source = make("pre", { class: "nb-source", tabindex: "0" }, cell.source);
  return make("div", { class: "nb-cell" }, label, source, ...cell.outputs.map(output));
}

function output(one) {
  if (one.type === "image") {
    const bytes = Uint8Array.from(atob(one.data), (c) => c.charCodeAt(0));
    return picture(new Blob([bytes], { type: one.mime }), text("image", { name: one.mime }));
  }
  if (one.type === "omitted") {
    return make("p", { class: "text-secondary" }, text("omitted", { mime: one.mime }));
  }
  return make("pre", { class: one.type === "error" ? "nb-error" : "nb-output", tabindex: "0" }, one.text);
}

// Headings, lists and code blocks of Markdown; the rest stays as it was written.
function words(cell) {
  if (cell.type !== "markdown") return make("pre", { class: "nb-raw" }, cell.source);
  const place = make("div", { class: "nb-words" });
  let fence = null;
  let lines = [];
  const flush = () => {
    const said = lines.join("\n").trim();
    if (said) place.append(make("p", {}, said));
    lines = [];
  };
  for (const line of cell.source.split("\n")) {
    if (line.startsWith("```")) {
      if (fence) {
        place.append(make("pre", { class: "nb-source" }, fence.join("\n")));
        fence = null;
      } else {
        flush();
        fence = [];
      }
      continue;
    }
    if (fence) {
      fence.push(line);
      continue;
    }
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    if (heading) {
      flush();
      // Below the page's own headings, whatever level the notebook says.
      place.append(make(`h${Math.min(6, heading[1].length + 2)}`, {}, heading[2]));
    } else if (!line.trim()) flush();
    else lines.push(line);
  }
  if (fence) place.append(make("pre", { class: "nb-source" }, fence.join("\n")));
  flush();
  return make("div", { class: "nb-cell" }, place);
}
