// What is open on each route, so that it can be cut.
//
// Counted are requests in flight and upgraded sockets, not idle keep-alive connections: those carry
// no right (their next request is routed anew), and behind another proxy they are shared by many.

export class Connections {
  constructor() {
    this.byRoute = new Map(); // route key -> Set of {socket, credentials}
  }

  add(key, req, credentials) {
    const entry = { socket: req.socket, credentials };
    if (!this.byRoute.has(key)) this.byRoute.set(key, new Set());
    this.byRoute.get(key).add(entry);
    const done = () => this.forget(key, entry);
    entry.socket.once("close", done);
    if (!isUpgrade(req)) {
      // The request's own end: "close" of the response comes after the last byte or the abort.
      responseOf(req)?.once("close", () => {
        entry.socket.off("close", done);
        done();
      });
    }
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

function isUpgrade(req) {
  return Boolean(req.headers.upgrade) && /upgrade/i.test(req.headers.connection || "");
}

function responseOf(req) {
  return req.socket._httpMessage; // set by node while a response belongs to this socket
}
