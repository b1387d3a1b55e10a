// Loaded before all others: a page whose script did not arrive looks alive and does nothing.
addEventListener(
  "error",
  (event) => {
    if (!(event.target instanceof HTMLScriptElement)) return; // a module's error is of its imports too
    const tell = () => {
      document.getElementById("incomplete").hidden = false;
    };
    if (document.readyState === "loading") addEventListener("DOMContentLoaded", tell);
    else tell();
  },
  true,
);
