// The notebook proxy: configurable-http-proxy's class with what Berth adds around it.
//
//  * a route's open requests and WebSockets can be cut (revoked visitor, stopped workspace);
//  * the portal's cookies and identity headers never reach a workload, X-Forwarded-* is truthful;
//  * a host or path without a route gets the portal's page for a stopped workspace;
//  * an epoch, so that the portal sees at once that a restarted proxy has lost its routes.
//
// Options: node berth-proxy.mjs --help.  The REST API's token comes from CONFIGPROXY_AUTH_TOKEN.

import crypto from "node:crypto";
import fs from "node:fs";
import { parseArgs } from "node:util";

import { ConfigurableProxy } from "configurable-http-proxy";

import { askIfThere, endTogether } from "./abandoned.mjs";
import { cleanCookies, cleanHeaders, credentials, withoutOldStates } from "./identity.mjs";
import { makeLog } from "./log.mjs";
import { stoppedPage, stoppedSocket } from "./stopped.mjs";
import { Connections } from "./connections.mjs";
import { Crowd } from "./crowd.mjs";

const USAGE = `Usage: node berth-proxy.mjs [options]

  --ip ADDRESS --port N | --fd N           where browsers connect (a number, or an inherited socket)
  --api-ip ADDRESS --api-port N | --api-fd N   where the portal manages routes
  --host-routing         the first part of a route's key is a host, not a path
  --path-host HOST       path routing: the only host that is served (default 127.0.0.1)
  --scheme http|https    the scheme that browsers use (X-Forwarded-Proto)
  --behind-proxy         another proxy of ours is in front: keep its X-Forwarded-For
  --connections-per-address N   open at once; 0: all come from a proxy in front (default 4000)
  --owed SECONDS         for a head, for the next KiB of a body, for the next request (default 30)
  --fallback-url URL     the portal's page for a stopped workspace
  --tls-cert FILE --tls-key FILE   answer browsers by TLS
  --log-level LEVEL      debug, info, warn or error (default info)
`;

const { values: args } = parseArgs({
  options: {
    ip: { type: "string", default: "127.0.0.1" },
    port: { type: "string", default: "8001" },
    fd: { type: "string" },
    "api-ip": { type: "string", default: "127.0.0.1" },
    "api-port": { type: "string", default: "8003" },
    "api-fd": { type: "string" },
    "host-routing": { type: "boolean", default: false },
    "path-host": { type: "string", default: "127.0.0.1" },
    scheme: { type: "string", default: "http" },
    "behind-proxy": { type: "boolean", default: false },
    "connections-per-address": { type: "string", default: "4000" },
    owed: { type: "string", default: "30" },
    "fallback-url": { type: "string", default: "http://127.0.0.1:8002/hub/424" },
    "tls-cert": { type: "string" },
    "tls-key": { type: "string" },
    "log-level": { type: "string", default: "info" },
    help: { type: "boolean", default: false },
  },
});

const RESPONSE = Symbol("the response that belongs to a request; absent for a WebSocket");
const OLD_STATES = Symbol("cookies of sign-ins that never ended, and where they lie");
const MISDIRECTED = 421;
const MAX_HEADER = 64 * 1024; // what a notebook server takes
const TOO_LARGE = `Your browser sends more cookies to this address than can be read. Delete the cookies \
and site data of this address, then load the page again.

このアドレスに送られる Cookie が多すぎて読み取れません。このアドレスの Cookie とサイトデータを削除し、\
ページを再読み込みしてください。
`;
const MAX_API_BODY = 1024 * 1024;
const REACHED_WITHIN_MS = 3000;

class BerthProxy extends ConfigurableProxy {
  constructor(options) {
    super(options);
    this.epoch = crypto.randomUUID();
    this.connections = new Connections();
    this.apiHandlers.unshift(
      [/^\/api\/berth\/epoch$/, { get: this.guarded(this.getEpoch) }],
      [/^\/api\/berth\/cut$/, { post: this.guarded(this.postCut) }],
      [/^\/api\/berth\/reach$/, { post: this.guarded(this.postReach) }]
    );
    // Uploads of data may take hours, as long as they move.
    this.proxyServer.requestTimeout = 0;
    const owedMs = 1000 * Number(args.owed);
    const mostOfAddress = Number(args["connections-per-address"]);
    new Crowd(this.proxyServer, { mostOfAddress, owedMs, log: this.log });
    new Crowd(this.apiServer, { mostOfAddress, owedMs, log: this.log });
    this.proxyServer.maxHeaderSize = MAX_HEADER;
    this.proxyServer.on("clientError", (error, socket) => {
      if (!socket.writable || error.code === "ECONNRESET") return socket.destroy(error);
      if (error.code === "HPE_HEADER_OVERFLOW") return headerTooLarge(socket);
      const late = error.code === "ERR_HTTP_REQUEST_TIMEOUT";
      const status = late ? "408 Request Timeout" : "400 Bad Request"; // as Node itself says it
      socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
    });
    this.proxy.on("proxyRes", (proxyRes, req) => {
      const { dropped, paths } = req[OLD_STATES] ?? { dropped: [] };
      const ends = dropped.flatMap((name) => paths.map((path) => `${name}=; Max-Age=0; Path=${path}`));
      if (ends.length) proxyRes.headers["set-cookie"] = [...(proxyRes.headers["set-cookie"] ?? []), ...ends];
    });
    this.proxyServer.on("connection", askIfThere);
    // Without a listener upstream throws what a visitor's socket says when he vanishes.
    this.proxy.on("error", (error) => this.log.debug("A visitor's WebSocket broke: %s", error.code));
    this.proxy.on("proxyReqWs", (proxyReq, _req, socket) => {
      // A WebSocket whose browser left before the workload answered must not stay open behind us.
      socket.once("close", () => proxyReq.destroy());
      proxyReq.once("upgrade", (_answer, workload) => endTogether(socket, workload));
      askIfThere(socket); // upstream has just said that the kernel's two hours will do
    });
  }

  guarded(handler) {
    const expected = digest(`token ${this.authToken}`);
    return (req, res, ...rest) => {
      const given = digest(req.headers.authorization || "");
      if (!crypto.timingSafeEqual(expected, given)) return answer(res, 403, { error: "forbidden" });
      return handler.call(this, req, res, ...rest);
    };
  }

  getEpoch(_req, res) {
    answer(res, 200, { epoch: this.epoch });
  }

  async postCut(req, res) {
    let wanted;
    try {
      wanted = JSON.parse(await body(req));
    } catch {
      return answer(res, 400, { error: "the body is not JSON" });
    }
    const { key, visitor, keep } = wanted ?? {};
    if (typeof key !== "string" || !key || !isHashes(visitor) || !isHashes(keep)) {
      return answer(res, 400, { error: "expected key, and visitor or keep as SHA-256 digests" });
    }
    const count = this.connections.cut(this._routes.cleanPath(key), { visitor, keep });
    this.log.info("Cut %d connections of %s", count, key);
    answer(res, 200, { cut: count });
  }

  // Whether an address of a workload can be reached from here. Nothing of its answer is told.
  async postReach(req, res) {
    let target;
    try {
      target = new URL(JSON.parse(await body(req)).target);
    } catch {
      return answer(res, 400, { error: "expected target as an address" });
    }
    try {
      const asked = { redirect: "manual", signal: AbortSignal.timeout(REACHED_WITHIN_MS) };
      const found = await fetch(target, asked);
      await found.body?.cancel();
      answer(res, 200, { why: "" });
    } catch (error) {
      answer(res, 200, { why: error.cause?.code || error.cause?.message || error.name });
    }
  }

  async addRoute(path, data) {
    const key = this._routes.cleanPath(path);
    const before = await this._routes.get(key);
    await super.addRoute(path, data);
    if (before && before.target !== data.target) this.connections.cut(key);
  }

  async removeRoute(path) {
    await super.removeRoute(path);
    this.connections.cut(this._routes.cleanPath(path));
  }

  // Called once for each request and each upgrade, by upstream's handleProxy.
  async targetForReq(req) {
    const host = hostname(req);
    const prefix = this.hostRouting ? `/${host}` : "";
    const route = await this._routes.getTarget(prefix + pathname(req));
    if (!route || !route.data) return undefined;
    this.connections.add(route.prefix, credentials(req), req.socket, req[RESPONSE]);
    const { kept, dropped } = withoutOldStates(cleanCookies(req.headers.cookie));
    req.headers.cookie = kept;
    if (dropped.length) {
      const below = this.hostRouting ? route.prefix.split("/").slice(2).join("/") : route.prefix.slice(1);
      req[OLD_STATES] = { dropped, paths: [...new Set(["/", `/${below}`, `/${below}/`.replace("//", "/")])] };
    }
    if (!req.headers.cookie) delete req.headers.cookie;
    cleanHeaders(req, { scheme: args.scheme, behindProxy: args["behind-proxy"] });
    return { prefix: route.prefix, target: route.data.target };
  }

  handleProxy(kind, req, res, ...rest) {
    if (kind === "ws") res.on("error", () => res.destroy());
    else req[RESPONSE] = res;
    if (!this.hostRouting && hostname(req) !== args["path-host"]) {
      // Cookies ignore ports: a workload must never be served under the portal's host.
      return kind === "ws" ? stoppedSocket(req, res, MISDIRECTED) : refuse(res);
    }
    return super.handleProxy(kind, req, res, ...rest);
  }

  // No route (404), workload does not answer (503), or our own failure (500).
  handleProxyError(code, kind, req, res, error) {
    this.metrics.requestsProxyCount.labels(code).inc();
    if (error) this.log.warn("%s %s: %s", code, req.method, error.code || error.message);
    if (!res || res.destroyed) return;
    if (kind === "ws") return stoppedSocket(req, res, code === 404 ? 424 : code);
    const place = { host: hostname(req), path: req.url, code };
    stoppedPage(args["fallback-url"], place, req, res, this.log);
  }
}

function digest(text) {
  return crypto.createHash("sha256").update(text).digest();
}

function isHashes(value) {
  return value === undefined || value === null || [value].flat().every((v) => typeof v === "string");
}

function hostname(req) {
  const raw = (req.headers.host || "").toLowerCase();
  return raw.startsWith("[") ? raw.slice(0, raw.indexOf("]") + 1) : raw.split(":")[0];
}

function pathname(req) {
  try {
    return decodeURIComponent(new URL(req.url, "http://local.invalid").pathname);
  } catch {
    return "/"; // malformed escapes: the workload itself says what is wrong with them
  }
}

function refuse(res) {
  res.writeHead(MISDIRECTED, { "Content-Type": "text/plain" });
  res.end("This host does not serve workspaces.\n");
}

function headerTooLarge(socket) {
  const head = [
    "HTTP/1.1 431 Request Header Fields Too Large",
    "Connection: close",
    "Content-Type: text/plain; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(TOO_LARGE)}`,
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${TOO_LARGE}`);
}

function answer(res, status, data) {
  res.writeHead(status, { "Content-Type": "application/json" });
  res.end(JSON.stringify(data));
}

async function body(req) {
  const parts = [];
  let size = 0;
  for await (const part of req) {
    size += part.length;
    if (size > MAX_API_BODY) throw new Error("too large");
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

function listen(server, fd, port, ip) {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    const where = fd === undefined ? { port: Number(port), host: ip } : { fd: Number(fd) };
    server.listen(where, () => resolve(server.address()));
  });
}

async function main() {
  if (args.help) return process.stdout.write(USAGE);
  const log = makeLog(args["log-level"]);
  const authToken = process.env.CONFIGPROXY_AUTH_TOKEN;
  if (!authToken) {
    log.error("CONFIGPROXY_AUTH_TOKEN is not set: the route API would be open to every process.");
    process.exit(2);
  }
  delete process.env.CONFIGPROXY_AUTH_TOKEN;
  const tls = args["tls-cert"] && {
    cert: fs.readFileSync(args["tls-cert"]),
    key: fs.readFileSync(args["tls-key"]),
  };
  const proxy = new BerthProxy({ log, authToken, hostRouting: args["host-routing"], ssl: tls });
  try {
    const api = await listen(proxy.apiServer, args["api-fd"], args["api-port"], args["api-ip"]);
    const front = await listen(proxy.proxyServer, args.fd, args.port, args.ip);
    log.info("Ready: workspaces on port %s, routes on port %s", front?.port, api?.port);
  } catch (error) {
    log.error("Can't listen: %s", error.message);
    process.exit(1);
  }
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(0));
  // One broken connection must not end everyone's: log it and go on, as upstream does.
  process.on("uncaughtException", (error) => log.error("Uncaught: %s", error.stack || error));
  process.on("unhandledRejection", (error) => log.error("Unhandled: %s", error?.stack || error));
}

await main();
