// Small things of the frame.
if (/Mac|iPhone|iPad/.test(navigator.platform)) {
  for (const keys of document.querySelectorAll("[data-keys]")) {
    keys.textContent = keys.dataset.keys.replace("Ctrl", "⌘");
  }
}

// A second press on a form that is already on its way makes no second thing.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || form.dataset.sent === "yes") {
    if (form.dataset.sent === "yes") event.preventDefault();
    return;
  }
  if (event.defaultPrevented) return;
  form.dataset.sent = "yes";
  setTimeout(() => delete form.dataset.sent, 4000);
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// A session that ended answers a fragment with the login page: go there instead.
document.addEventListener("htmx:beforeSwap", (event) => {
  const login = document.body.dataset.loginPath;
  if (login && event.detail.xhr.responseURL.includes(login) && location.pathname !== login) {
    event.detail.shouldSwap = false;
    location.reload();
  }
});

// Filters and selects that submit their form on change; without a script there is a button.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit-on-change]")) event.target.form.requestSubmit();
});

// Tabs scroll on a narrow screen, the rail on a low one: begin with the current one in sight.
for (const current of document.querySelectorAll(".tabs [aria-current], .rail [aria-current]")) {
  if (current.checkVisibility({ visibilityProperty: true })) {
    current.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

// A form that was refused begins at the first thing that is wrong, however far down it stands, once
// the page's own script has hidden what is not to be seen.
document.addEventListener("DOMContentLoaded", () => {
  const said = "[aria-invalid=true], .errorlist.nonfield";
  const wrong = [...document.querySelectorAll("main form[method=post]")]
    .flatMap((form) => [...form.querySelectorAll(said)])
    .find((one) => one.checkVisibility());
  if (wrong?.matches(".errorlist")) wrong.tabIndex = -1; // a sentence is read out, not typed into
  wrong?.focus();
  wrong?.scrollIntoView({ block: "center", behavior: "instant" }); // with what is said below it
});
