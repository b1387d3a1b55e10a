// Buttons with data-copy put that text on the clipboard and say so.
import { toast } from "./toasts.js";

async function put(text) {
  if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  event.preventDefault();
  await put(button.dataset.copy);
  const icon = button.querySelector(".ti");
  icon?.classList.replace("ti-copy", "ti-check");
  setTimeout(() => icon?.classList.replace("ti-check", "ti-copy"), 1500);
  toast(document.body.dataset.textCopied, "success", 2000);
});
