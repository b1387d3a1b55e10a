// Loaded in <head> before the first paint: "auto" follows the system without a flash.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const choice = root.dataset.themeChoice;
    const theme = choice === "auto" ? (dark.matches ? "dark" : "light") : choice;
    root.dataset.bsTheme = theme;
  };
  apply();
  dark.addEventListener("change", apply);
})();
