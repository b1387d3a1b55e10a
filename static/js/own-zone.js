// Beside each field of a time zone: a button that takes the browser's own.
const own = Intl.DateTimeFormat().resolvedOptions().timeZone;

for (const field of own ? document.querySelectorAll("[data-own-zone]") : []) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn btn-sm mt-2";
  button.textContent = field.dataset.ownZone.replace("%(zone)s", own);
  const look = () => { button.hidden = (field.value || "UTC") === own; };
  button.addEventListener("click", () => {
    field.value = own;
    field.dispatchEvent(new Event("change", { bubbles: true }));
    field.focus();
  });
  field.addEventListener("input", look);
  field.addEventListener("change", look);
  look();
  field.after(button);
}
