// The time zone of the profile, in which every page says its times; undefined, the browser's own,
// where this browser does not know it.
function known(name) {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}

export const zone = known(document.documentElement.dataset.zone);
