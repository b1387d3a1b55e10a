// Command palette: Ctrl-K or ⌘K; arrows, Enter, Esc. The server searches (/palette?q=).
const dialog = document.getElementById("palette");
const input = dialog?.querySelector("input");
const list = document.getElementById("palette-list");
let items = [];
let chosen = 0;
let asked = 0;
let isOld = false; // what is listed answers to other words than those that were typed
let entered = null; // Enter was pressed before the answer: "tab" or "here"

function open() {
  if (!dialog || dialog.open) return;
  input.value = "";
  entered = null;
  dialog.showModal();
  search();
}

function select(index) {
  const nodes = [...list.querySelectorAll("[role=option]")];
  if (!nodes.length) {
    input.removeAttribute("aria-activedescendant");
    return;
  }
  chosen = (index + nodes.length) % nodes.length;
  nodes.forEach((node, i) => node.setAttribute("aria-selected", String(i === chosen)));
  nodes[chosen].scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", nodes[chosen].id);
}

function note(text) {
  const node = document.createElement("div");
  node.className = "palette-none";
  node.setAttribute("role", "status");
  node.textContent = text;
  list.replaceChildren(node);
}

function render(groups) {
  items = [];
  const parts = [];
  for (const group of groups) {
    const box = document.createElement("div");
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", group.label);
    const title = document.createElement("div");
    title.className = "palette-group";
    title.setAttribute("aria-hidden", "true");
    title.textContent = group.label;
    box.append(title);
    for (const item of group.items) {
      const node = document.createElement("div");
      node.className = "palette-item";
      node.id = `palette-item-${items.length}`;
      node.setAttribute("role", "option");
      node.dataset.index = String(items.length);
      const icon = document.createElement("i");
      icon.className = `ti ti-${item.icon}`;
      icon.setAttribute("aria-hidden", "true");
      const words = document.createElement("span");
      words.textContent = item.label;
      const hint = document.createElement("small");
      hint.textContent = item.hint ?? "";
      node.append(icon, words, hint);
      box.append(node);
      items.push(item);
    }
    parts.push(box);
  }
  list.replaceChildren(...parts);
  if (items.length) select(0);
  else note(dialog.dataset.textNone);
}

async function search() {
  const mine = ++asked;
  try {
    const answer = await fetch(`${dialog.dataset.paletteUrl}?q=${encodeURIComponent(input.value)}`, {
      headers: { Accept: "application/json" },
      credentials: "same-origin",
    });
    if (!answer.ok) throw new Error(String(answer.status));
    const found = await answer.json();
    if (mine === asked) arrived(() => render(found.groups));
  } catch {
    if (mine === asked) arrived(() => failed());
  }
}

function failed() {
  items = [];
  note(dialog.dataset.textError);
}

function arrived(show) {
  isOld = false;
  show();
  const how = entered;
  entered = null;
  if (how && dialog.open) run(items[chosen], how === "tab");
}

function token() {
  return JSON.parse(document.body.getAttribute("hx-headers"))["X-CSRFToken"];
}

function run(item, newTab) {
  if (!item) return;
  if (item.method === "post") {
    const form = document.createElement("form");
    form.method = "post";
    form.action = item.url;
    const fields = { csrfmiddlewaretoken: token(), ...item.fields };
    for (const [name, value] of Object.entries(fields)) {
      const field = document.createElement("input");
      field.type = "hidden";
      field.name = name;
      field.value = value;
      form.append(field);
    }
    document.body.append(form);
    form.submit();
  } else if (newTab) window.open(item.url, "_blank", "noopener");
  else location.assign(item.url);
  dialog.close();
}

if (dialog) {
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (dialog.open) dialog.close();
      else open();
    }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-palette-open]")) open();
    if (event.target === dialog) dialog.close();
  });
  let soon = null;
  input.addEventListener("input", () => {
    clearTimeout(soon);
    isOld = true;
    entered = null;
    soon = setTimeout(search, 90);
  });
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };
    if (event.key in steps) {
      event.preventDefault();
      select(chosen + steps[event.key]);
    } else if (event.key === "Enter") {
      event.preventDefault();
      const newTab = event.ctrlKey || event.metaKey;
      if (isOld) entered = newTab ? "tab" : "here";
      else run(items[chosen], newTab);
    }
  });
  list.addEventListener("click", (event) => {
    const node = event.target.closest("[data-index]");
    if (node) run(items[Number(node.dataset.index)], event.ctrlKey || event.metaKey);
  });
}
