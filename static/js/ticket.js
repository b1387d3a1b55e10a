// The gate never sees the portal's cookie: what a page asks there bears a ticket of the portal's for
// this workspace or volume. It is good for a minute, and asked for anew before that.
const FRESH_MS = 30_000;
const known = new Map(); // "files/<id>" → { until, ticket: a promise }

export function ticket(way) {
  const found = known.get(way);
  if (found && Date.now() < found.until) return found.ticket;
  const asked = ask(way);
  known.set(way, { until: Date.now() + FRESH_MS, ticket: asked });
  asked.catch(() => forget(way));
  return asked;
}

// The gate refused it: the sign-in may be another one meanwhile.
export const forget = (way) => known.delete(way);

async function ask(way) {
  const headers = { Accept: "application/json" };
  const answer = await fetch(`/tickets/${way}`, { headers, redirect: "error" });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return (await answer.json()).ticket;
}
