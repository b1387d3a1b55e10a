// A request that no workload can answer: the portal's page, or one plain sentence when it is down.

import http from "node:http";

const PASSED_ON = ["accept", "accept-language", "sec-fetch-mode", "sec-fetch-dest", "x-requested-with"];
const KEPT = ["content-type", "content-language", "content-security-policy", "cache-control",
  "referrer-policy", "retry-after", "vary", "x-content-type-options", "x-frame-options"];
const TIMEOUT_MS = 30_000; // one that is down refuses at once; this is for one that is slow
const HTTP_STATUS = { 421: "Misdirected Request", 424: "Failed Dependency", 503: "Service Unavailable" };

export function stoppedSocket(req, socket, code) {
  if (socket.destroyed) return;
  const status = HTTP_STATUS[code] ?? "Error";
  socket.end(`HTTP/1.1 ${code} ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}

export function stoppedPage(base, place, req, res, log) {
  const url = new URL(base);
  for (const [name, value] of Object.entries(place)) url.searchParams.set(name, String(value));
  const headers = Object.fromEntries(
    PASSED_ON.filter((name) => req.headers[name]).map((name) => [name, req.headers[name]])
  );
  req.resume(); // a body nobody will read must not block the connection
  const ask = http.get(url, { headers, timeout: TIMEOUT_MS, agent: false }, (page) => {
    if (res.headersSent) return page.resume();
    const kept = KEPT.filter((name) => page.headers[name]).map((name) => [name, page.headers[name]]);
    res.writeHead(page.statusCode, Object.fromEntries(kept));
    if (req.method === "HEAD") {
      page.resume();
      return res.end();
    }
    page.on("error", () => res.destroy());
    page.pipe(res);
  });
  let why = "is not there to say why";
  ask.on("timeout", () => {
    why = "did not say why in time";
    ask.destroy(new Error("the portal did not answer in time"));
  });
  ask.on("error", (error) => {
    log.warn("No page for a stopped workspace: %s", error.message);
    if (res.headersSent) return res.destroy();
    res.writeHead(503, { "Content-Type": "text/plain; charset=utf-8", "Retry-After": "5" });
    res.end(`This workspace does not answer, and the portal ${why}. Try again soon.\n`);
  });
}
