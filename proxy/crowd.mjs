// How many connections a listener holds, and which it lets go: common/serving.py for this process.
//
// A connection owes while its client has to send something: a TLS handshake, the head of a request,
// the rest of a body, the next request. Such connections are few for each address, and let go when
// they are late; what is being answered, and every WebSocket, is left alone.

import fs from "node:fs";
import net from "node:net";

const MOST = 10_000; // each may need a second one, to its workload
const OWING = 4096;
const OWING_OF_ADDRESS = 512;
const PROGRESS = 1024; // bytes of a body in the time that it has: fewer are none
const SWEEP_MS = 1000;

export class Crowd {
  // mostOfAddress: 0 where all come from one proxy in front.
  constructor(server, { mostOfAddress, owedMs, log }) {
    this.most = Math.min(MOST, Math.floor(openFiles() / 3));
    this.mostOfAddress = mostOfAddress || this.most;
    this.owingOfAddress = mostOfAddress ? Math.min(OWING_OF_ADDRESS, mostOfAddress) : OWING;
    this.owedMs = owedMs;
    this.log = log;
    this.all = new Map(); // "address port" of the client -> its entry, also where TLS wraps the socket
    this.owing = new Map(); // entry -> since when; who made no progress for longest comes first
    this.ofAddress = new Map(); // address -> {all: number, owing: Set of entries in the same order}
    this.said = 0;
    server.on("connection", (socket) => this.joined(socket));
    server.prependListener("request", (req, res) => this.asked(req, res));
    server.prependListener("upgrade", (req) => this.owesNothing(this.entryOf(req.socket)));
    setInterval(() => this.sweep(), Math.min(SWEEP_MS, owedMs / 4)).unref();
  }

  joined(socket) {
    const address = network(socket.remoteAddress);
    if (!address) return socket.destroy(); // it has gone already
    const theirs = this.ofAddress.get(address) ?? { all: 0, owing: new Set() };
    const full =
      (theirs.all >= this.mostOfAddress && !this.letGoFirst(theirs.owing)) ||
      (this.all.size >= this.most && !this.letGoFirst(this.owing));
    if (full) return socket.destroy();
    this.ofAddress.set(address, theirs);
    const key = keyOf(socket);
    const entry = { socket, address, key, req: null, seen: 0 };
    this.all.set(key, entry);
    theirs.all += 1;
    this.owes(entry);
    socket.once("close", () => this.left(entry));
    if (theirs.owing.size > this.owingOfAddress) this.letGoFirst(theirs.owing);
    if (this.owing.size > OWING) this.letGoFirst(this.owing);
  }

  left(entry) {
    this.owesNothing(entry);
    if (this.all.get(entry.key) !== entry) return;
    this.all.delete(entry.key);
    const theirs = this.ofAddress.get(entry.address);
    theirs.all -= 1;
    if (theirs.all === 0) this.ofAddress.delete(entry.address);
  }

  asked(req, res) {
    const entry = this.entryOf(req.socket);
    if (!entry) return;
    if (req.headers["transfer-encoding"] || Number(req.headers["content-length"]) > 0) {
      entry.req = req;
      entry.seen = req.socket.bytesRead;
      this.owes(entry);
      req.once("close", () => {
        if (entry.req === req) this.owesNothing(entry);
      });
    } else {
      this.owesNothing(entry);
    }
    res.once("close", () => {
      entry.req = null;
      this.owes(entry); // the next request
    });
  }

  entryOf(socket) {
    return this.all.get(keyOf(socket));
  }

  owes(entry) {
    if (this.all.get(entry.key) !== entry) return; // it was let go
    const theirs = this.ofAddress.get(entry.address).owing;
    this.owing.delete(entry);
    theirs.delete(entry);
    this.owing.set(entry, performance.now());
    theirs.add(entry);
  }

  owesNothing(entry) {
    if (!entry) return;
    entry.req = null;
    this.owing.delete(entry);
    this.ofAddress.get(entry.address)?.owing.delete(entry);
  }

  // Whether something of a body came, or waits for us.
  moves({ req, seen }) {
    return req && (req.readableLength > 0 || req.socket.bytesRead - seen >= PROGRESS);
  }

  sweep() {
    const late = performance.now() - this.owedMs;
    for (const [entry, since] of this.owing) {
      if (since > late) return;
      if (this.moves(entry)) this.movesOn(entry);
      else this.letGo(entry);
    }
  }

  letGoFirst(owing) {
    for (let left = owing.size; left > 0; left -= 1) {
      const entry = owing.keys().next().value;
      if (this.moves(entry)) {
        this.movesOn(entry);
        continue;
      }
      if (performance.now() - this.said > 60_000) {
        this.said = performance.now();
        this.log.warn("Crowded by %s: %d connections are open", entry.address, this.all.size);
      }
      this.letGo(entry);
      return true;
    }
    return false;
  }

  movesOn(entry) {
    entry.seen = entry.req.socket.bytesRead;
    this.owes(entry);
  }

  letGo(entry) {
    this.left(entry);
    entry.socket.destroy();
  }
}

function keyOf(socket) {
  return `${socket.remoteAddress} ${socket.remotePort}`;
}

// Who is counted together: an IPv4 address, of IPv6 the /64 network that one machine may have.
function network(address) {
  if (!address) return "";
  const plain = address.split("%")[0];
  if (!net.isIPv6(plain)) return plain;
  if (plain.startsWith("::ffff:") && plain.includes(".")) return plain.slice(7);
  const [head, tail] = plain.split("::");
  const before = head ? head.split(":") : [];
  const after = tail ? tail.split(":") : [];
  const zeros = tail === undefined ? [] : Array(8 - before.length - after.length).fill("0");
  return [...before, ...zeros, ...after].slice(0, 4).join(":");
}

// Node has raised its own limit to the highest that it may have.
function openFiles() {
  try {
    const line = /^Max open files\s+(\d+)/m.exec(fs.readFileSync("/proc/self/limits", "utf8"));
    return line ? Number(line[1]) : Infinity;
  } catch {
    return Infinity;
  }
}
