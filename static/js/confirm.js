// Forms with data-typed-name: the button works once the name is typed. The server checks too.
function check(form) {
  const input = form.querySelector("input[required]");
  const button = form.querySelector("button[type=submit]");
  if (input && button) button.disabled = input.value.trim() !== form.dataset.typedName;
}

export function arm(root) {
  for (const form of root.querySelectorAll("form[data-typed-name]")) check(form);
}

document.addEventListener("input", (event) => {
  const form = event.target.closest?.("form[data-typed-name]");
  if (form) check(form);
});
document.addEventListener("htmx:afterSettle", (event) => arm(event.target));
arm(document);
// A sheet whose form was refused stands open again, with what was wrong.
for (const sheet of document.querySelectorAll("[popover][data-open]")) sheet.showPopover?.();
