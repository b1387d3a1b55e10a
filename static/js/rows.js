// Rows of a list that are chosen for one act: how many, all of a page, and kept when it refreshes.
const form = document.getElementById("bulk");
const chosen = new Set();
const marks = () => [...document.querySelectorAll(".row-mark")];

function show() {
  const all = form.querySelector(".bulk-all");
  const count = marks().filter((mark) => mark.checked).length;
  form.hidden = !marks().length;
  all.hidden = false; // without this script each is marked by hand
  const box = all.querySelector("input");
  box.checked = count > 0 && count === marks().length;
  box.indeterminate = count > 0 && !box.checked;
  form.querySelector(".bulk-count").textContent = count
    ? form.dataset.textCount.replace("{n}", count)
    : "";
  for (const button of form.querySelectorAll("button")) button.disabled = !count;
}

function take(mark, on) {
  mark.checked = on;
  if (on) chosen.add(mark.value);
  else chosen.delete(mark.value);
}

if (form) {
  document.addEventListener("change", ({ target }) => {
    if (target.matches(".row-mark")) take(target, target.checked);
    else if (target.matches(".bulk-all input")) marks().forEach((mark) => take(mark, target.checked));
    else return;
    show();
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    if (!event.target.matches?.(form.dataset.bulk)) return;
    const there = new Set(marks().map((mark) => mark.value));
    chosen.forEach((value) => there.has(value) || chosen.delete(value)); // another page, or gone
    for (const mark of marks()) mark.checked = chosen.has(mark.value);
    show();
  });
  // what the browser itself kept of marks when one comes back to the page
  addEventListener("pageshow", () => {
    for (const mark of marks()) take(mark, mark.checked);
    show();
  });
  show();
}
