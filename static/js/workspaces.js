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

// What only a container has is shown when a container is chosen.
function showKind(form) {
  const chosen = form.querySelector("[data-kind-switch]:checked, [data-kind-switch] :checked");
  if (!chosen) return;
  for (const part of form.querySelectorAll("[data-kind-only]")) {
    part.hidden = part.dataset.kindOnly !== chosen.value;
  }
}

document.addEventListener("change", (event) => {
  const form = event.target.closest?.("form[data-kinds]");
  if (form) showKind(form);
});
document.addEventListener("htmx:afterSettle", () => {
  for (const form of document.querySelectorAll("form[data-kinds]")) showKind(form);
});
for (const form of document.querySelectorAll("form[data-kinds]")) showKind(form);
