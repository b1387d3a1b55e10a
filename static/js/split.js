// The share of a canary: a slider beside its number. Without a script the number does it alone.
function couple(form) {
  const slider = form.querySelector("[data-split-slider]");
  const number = form.querySelector("input[name=percent]");
  if (!slider || !slider.hidden) return;
  slider.hidden = false;
  slider.value = number.value;
  slider.addEventListener("input", () => { number.value = slider.value; });
  number.addEventListener("input", () => { slider.value = number.value; });
}

const coupleAll = () => document.querySelectorAll("form[data-split]").forEach(couple);
document.addEventListener("htmx:afterSettle", coupleAll);
coupleAll();
