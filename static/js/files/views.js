// What takes the list's place for a while: disk usage by folder, and a search by name.
import { at, button, count, icon, make, named, number, parent, say, size, text } from "./dom.js";
import { ask, lines } from "./gate.js";

const view = at("view");
let stop = null;

export function close() {
  stop?.abort();
  stop = null;
  view.hidden = true;
  at("columns").hidden = false;
  say("");
}

function begin(title) {
  close();
  stop = new AbortController();
  const state = make("p", { class: "text-secondary", role: "status" });
  const place = make("div", {});
  const end = button(text("stop"), () => stop?.abort());
  view.replaceChildren(
    make("div", { class: "browser-view-head" }, make("h2", {}, title), end, button(text("back"), close)),
    state,
    place,
  );
  view.hidden = false;
  at("columns").hidden = true;
  return { state, place, end, signal: stop.signal };
}

const quiet = (work) => work.catch((error) => {
  if (error.name !== "AbortError") throw error;
});

// --- what takes room ------------------------------------------------------------------------------

export async function usage(path, open) {
  const { state, place, end, signal } = begin(text("usage"));
  state.textContent = text("counting_usage");
  const draw = (said) => {
    const { total } = said;
    const largest = Math.max(1, ...said.entries.map((one) => one.disk));
    state.textContent = text("usage_sum", { size: size(total.disk), files: count("files", total.files), folders: count("folders", total.folders) });
    place.replaceChildren(make("ul", { class: "browser-usage" }, ...said.entries.map((one) => usageRow(one, largest, open))));
  };
  const last = await quiet(lines(ask("usage", { query: { path }, signal }), (line) => draw(line.progress)));
  end.hidden = true;
  if (!last) return;
  draw(last.done);
  state.textContent += ` · ${text("usage_free", { size: size(last.done.free) })}`;
  if (!last.done.complete) state.textContent += ` · ${text("usage_partly")}`;
}

function usageRow(one, largest, open) {
  const label = one.kind === "folder"
    ? make("button", { type: "button", class: "btn-link", onclick: () => open(one.path) }, icon("folder"), named(one.name))
    : make("span", {}, icon("file"), named(one.name));
  return make(
    "li",
    {},
    label,
    make("progress", { class: "bar", max: String(largest), value: String(one.disk), "aria-hidden": "true" }),
    make("span", { class: "end" }, size(one.disk)),
    make("span", { class: "end text-secondary" }, text("items", { n: number(one.files) })),
  );
}

// --- search -----------------------------------------------------------------------------------------

export async function search(path, words, show) {
  const { state, place, end, signal } = begin(`“${words}”`);
  const list = make("ul", { class: "browser-found" });
  place.replaceChildren(list);
  // By path, as they come: what was found later may stand before what was found first.
  const byPath = new Intl.Collator(document.documentElement.lang, { numeric: true });
  const known = [];
  const found = (entries) => {
    for (const one of entries) {
      const path = decodePath(one.path);
      let place = known.length;
      while (place > 0 && byPath.compare(known[place - 1], path) > 0) place -= 1;
      known.splice(place, 0, path);
      list.insertBefore(foundRow(one, show), list.children[place] ?? null);
    }
  };
  state.textContent = text("searching", { n: 0 });
  const last = await quiet(lines(ask("search", { query: { path, q: words }, signal }), (line) => {
    found(line.entries);
    state.textContent = text("searching", { n: number(line.progress.looked) });
  }));
  end.hidden = true;
  if (!last) return;
  found(last.entries);
  state.textContent = list.children.length ? text("found", { n: number(list.children.length) }) : text("found_none");
  if (!last.done.complete) state.textContent += ` · ${text("search_partly")}`;
}

function foundRow(one, show) {
  const where = parent(one.path);
  return make(
    "li",
    {},
    make(
      "button",
      { type: "button", class: "btn-link", onclick: () => show(one) },
      icon(one.kind === "folder" ? "folder" : "file"),
      named(one.name),
    ),
    make("span", { class: "text-secondary" }, decodePath(where)),
    make("span", { class: "end" }, one.kind === "file" ? size(one.size) : ""),
  );
}

function decodePath(path) {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
