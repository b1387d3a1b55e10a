// What is open on each route, so that it can be cut.
//
// Counted are requests in flight and upgraded sockets, not idle keep-alive connections: those carry
// no right (their next request is routed anew), and behind another proxy they are shared by many.

export class Connections {
  constructor() {
    this.byRoute = new Map(); // route key -> Set of {socket, credentials}
  }

  // response: what ends the request; without one the connection is a WebSocket until it closes.
  add(key, credentials, socket, response) {
    const entry = { socket, credentials };
    if (!this.byRoute.has(key)) this.byRoute.set(key, new Set());
    this.byRoute.get(key).add(entry);
    (response ?? socket).once("close", () => this.forget(key, entry));
  }

  forget(key, entry) {
    const entries = this.byRoute.get(key);
    entries?.delete(entry);
    if (entries?.size === 0) this.byRoute.delete(key);
  }

  // Destroys the connections of a route and answers how many.  visitor: only those that signed in
  // by one of these digests, and those of which nobody can say.  keep: all but those that signed in
  // by one of these.
  cut(key, { visitor, keep } = {}) {
    const revoked = visitor ? [visitor].flat() : null;
    const spared = keep ? [keep].flat() : null;
    let count = 0;
    for (const entry of [...(this.byRoute.get(key) ?? [])]) {
      if (!mustGo(entry.credentials, revoked, spared)) continue;
      entry.socket.destroy();
      this.forget(key, entry);
      count += 1;
    }
    return count;
  }
}

function mustGo(credentials, revoked, spared) {
  const has = (digests) => digests.some((one) => credentials.has(one));
  if (revoked && has(revoked)) return true;
  if (spared) return !has(spared);
  return revoked ? credentials.size === 0 : true;
}
