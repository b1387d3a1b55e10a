// Says in the page why a passkey did not come (allauth's scripts only report to the console).
document.addEventListener("allauth.error", (event) => {
  const note = document.getElementById("passkey_error");
  if (!note) return;
  event.preventDefault();
  note.textContent = note.dataset.textCancelled;
  note.hidden = false;
  note.classList.add("d-block");
});
