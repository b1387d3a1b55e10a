// Side panel of the launch form, and opening a workspace once it is ready.

const panel = () => document.getElementById("launch-panel");

document.addEventListener("htmx:afterSwap", (event) => {
  const target = event.detail.target;
  if (target?.id !== "launch-panel" || !target.hasAttribute("popover")) return;
  if (!target.matches(":popover-open")) target.showPopover();
  target.querySelector("input:not([type=hidden])")?.focus();
});

// Who pressed Start waits for the workspace: it opens in this tab, once, if it is in front.
let waiting = false;
const address = new URL(location.href);
if (address.searchParams.get("open") === "1") {
  waiting = true;
  address.searchParams.delete("open");
  history.replaceState(history.state, "", address);
}

function look() {
  const state = document.querySelector("[data-workspace-state]");
  if (!state) return;
  const phase = state.dataset.workspaceState;
  if (phase === "failed" || phase === "stopped") waiting = false;
  if (!waiting || phase !== "running" || !state.dataset.openUrl) return;
  waiting = false;
  if (!document.hidden) location.assign(state.dataset.openUrl);
}

addEventListener("pageshow", (event) => {
  if (event.persisted) waiting = false; // came back from it: do not throw him in again
});
document.addEventListener("htmx:afterSettle", look);
look();

// Closing the panel by Escape or a press beside it leaves nothing half-filled behind.
panel()?.addEventListener("toggle", (event) => {
  if (event.newState === "closed") panel().replaceChildren();
});

// Kinds of GPU are liked from top to bottom: a button on each moves it up. The form sends them as
// they stand.
function order(field) {
  const row = field.closest("label").parentElement;
  const up = document.createElement("button");
  up.type = "button";
  up.className = "btn btn-sm btn-up";
  up.textContent = "↑";
  up.title = field.dataset.ordered;
  up.setAttribute("aria-label", `${field.dataset.ordered}: ${row.textContent.trim()}`);
  up.addEventListener("click", () => {
    row.previousElementSibling?.before(row);
    up.focus();
    field.dispatchEvent(new Event("change", { bubbles: true }));
  });
  row.append(up);
  delete field.dataset.ordered;
}

const orderAll = () => {
  const fields = document.querySelectorAll("input[data-ordered]");
  if (fields.length > 1) fields.forEach(order);
};
document.addEventListener("htmx:afterSettle", orderAll);
orderAll();

// What only a container, or only this machine, has is shown when that is chosen.
function showFitting(form) {
  const kind = form.elements.kind?.value;
  const cluster = form.querySelector("[data-cluster-switch]")?.value;
  const bound = "[data-only], [data-cluster-only], [data-cluster-not]";
  for (const part of form.querySelectorAll(bound)) {
    const { only, clusterOnly, clusterNot } = part.dataset;
    const [name, wanted] = only?.split("=") ?? [];
    const said = form.elements[name]?.value;
    part.hidden = Boolean(
      (only && said !== undefined && said !== wanted)
      || (clusterOnly && ((cluster && clusterOnly !== cluster) || kind === "container"))
      || (clusterNot && cluster === clusterNot));
  }
}

// What has the focus stands above the foot, also when something grows: a note, a late answer, the
// plan itself. Browsers mind a scroll-margin, but not for the caret of a text of several lines. Who
// has scrolled since then looks where he wants to.
let kept = true;
function showAboveFoot(field) {
  const foot = field.closest(".launch-form")?.querySelector(".launch-foot");
  if (foot && !foot.contains(field)) field.scrollIntoView({ block: "nearest" });
}
document.addEventListener("focusin", ({ target }) => {
  kept = true;
  if (target.matches(":focus-visible")) showAboveFoot(target); // not under a press: it would miss
});
for (const scrolls of ["wheel", "touchmove"]) {
  document.addEventListener(scrolls, () => { kept = false; }, { passive: true });
}
const shifts = new ResizeObserver(() => {
  for (const form of document.querySelectorAll(".launch-form")) {
    const height = heightOf(form.querySelector(".launch-foot"));
    form.style.setProperty("--launch-foot", `${height}px`);
  }
  if (kept) showAboveFoot(document.activeElement);
});
shifts.observe(document.querySelector("main"));

// On a phone only two parts of it stay in sight, one above the other.
function heightOf(foot) {
  const parts = getComputedStyle(foot).display === "contents"
    ? [foot.querySelector(".plan > :first-child"), foot.lastElementChild] : [foot];
  return Math.max(...parts.filter(Boolean).map(
    (part) => part.offsetHeight + Number.parseFloat(getComputedStyle(part).bottom)));
}

const fitAll = () => {
  for (const form of document.querySelectorAll("form[data-kinds]")) {
    showFitting(form);
    shifts.observe(form);
  }
};

document.addEventListener("change", (event) => {
  const form = event.target.closest?.("form[data-kinds]");
  if (form) showFitting(form);
});
document.addEventListener("htmx:afterSettle", fitAll);
fitAll();
