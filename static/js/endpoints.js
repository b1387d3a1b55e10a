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

// The model of an endpoint: a list of the project's versions, and the field where any other is
// typed. What the field says is sent; without a script it is all there is.
const OTHER = "*";

function offer(list) {
  const field = document.getElementById(list.dataset.modelOf);
  if (!field || !list.hidden) return;
  const form = list.form;
  const told = form.querySelector("[data-model-told]");
  list.hidden = false;
  list.value = field.value;
  if (list.selectedIndex < 0) list.value = OTHER;
  document.querySelector(`label[for="${field.id}"]`)?.setAttribute("for", list.id);

  function show() {
    const chosen = list.selectedOptions[0];
    field.hidden = list.value !== OTHER;
    told.textContent = chosen.dataset.told ?? "";
    const name = form.elements.name;
    if (name) name.placeholder = chosen.dataset.model ?? "";
    const fits = chosen.dataset.servers?.split(" ");
    for (const server of form.querySelectorAll("input[name=runtime]")) {
      server.disabled = Boolean(server.value && fits && !fits.includes(server.value));
      if (server.disabled && server.checked) form.querySelector("input[name=runtime]").checked = true;
    }
  }

  // The size follows what is chosen, but for what somebody has typed.
  function follow() {
    for (const [name, value] of Object.entries(JSON.parse(list.selectedOptions[0].dataset.size ?? "{}"))) {
      const fields = [...form.elements].filter((one) => one.name === name && !typed.has(one.name));
      for (const one of fields) {
        if (one.type === "checkbox") one.checked = one.value === value;
        else one.value = value;
      }
    }
  }

  const typed = new Set();
  form.addEventListener("input", ({ target, isTrusted }) => { if (isTrusted) typed.add(target.name); });
  list.addEventListener("change", () => {
    if (list.value !== OTHER) field.value = list.value;
    show();
    if (list.dataset.follow) follow();
    if (list.value === OTHER) field.select();
    const own = form.querySelector("details:has([name=command])");
    if (list.value === "" && own) own.open = true;
  });
  show();
}

function begin() {
  document.querySelectorAll("form[data-split]").forEach(couple);
  document.querySelectorAll("select[data-model-of]").forEach(offer);
}
document.addEventListener("htmx:afterSettle", begin);
begin();
