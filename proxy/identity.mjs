// Who a request comes from: what a workload may see of it, and what tells visitors apart.

import crypto from "node:crypto";

// berth_session, berth_csrf and their __Host- and __Secure- forms (portal/settings/base.py).
const PORTAL_COOKIE = /^(__Host-|__Secure-)?berth_/;

// Headers by which some proxy, somewhere, tells an application who the user is or how the browser
// came.  A browser may send any of them; none may be believed, so none goes through.
const FOREIGN = [
  /^x-forwarded(-|$)/,
  /^x-auth-request-/,
  /^x-remote-/,
  /^x-webauth-/,
  /^x-goog-(authenticated|iap)-/,
  /^x-ms-(client-principal|token)/,
  /^x-amzn-oidc-/,
  /^(remote|auth)-(user|groups|name|email)$/,
  /^kubeflow-userid$/,
  /^x-(user|email|groups)$/,
  /^(forwarded|x-scheme|x-real-ip|x-original-(host|url)|x-rewrite-url|x-client-ip|true-client-ip)$/,
];

export function cleanCookies(header) {
  if (!header) return "";
  return header
    .split(";")
    .map((part) => part.trim())
    .filter((part) => part && !PORTAL_COOKIE.test(part))
    .join("; ");
}

// Sign-ins that were begun and never ended each leave a cookie for ten minutes; a page that is opened
// again and again while nobody signs in would fill the header until no request gets through.
const STATE = /-oauth-state(-[A-Za-z]+)?$/;
const STATES_KEPT = 3;

// Browsers send the oldest first: the newest are kept.  Returns what is left and what was dropped.
export function withoutOldStates(header) {
  const parts = (header || "").split("; ");
  const states = parts.filter((part) => STATE.test(part.split("=", 1)[0]));
  const old = new Set(states.slice(0, Math.max(0, states.length - STATES_KEPT)));
  return {
    kept: parts.filter((part) => !old.has(part)).join("; "),
    dropped: [...old].map((part) => part.split("=", 1)[0]),
  };
}

export function cleanHeaders(req, { scheme, behindProxy }) {
  const came = behindProxy ? lastOf(req.headers["x-forwarded-for"]) : "";
  for (const name of Object.keys(req.headers)) {
    const spelled = name.replaceAll("_", "-"); // many applications read both as one
    if (FOREIGN.some((pattern) => pattern.test(spelled))) delete req.headers[name];
  }
  const host = req.headers.host || "";
  req.headers["x-forwarded-for"] = came || req.socket.remoteAddress || "";
  req.headers["x-forwarded-proto"] = scheme;
  req.headers["x-forwarded-host"] = host;
  req.headers["x-forwarded-port"] = host.split(":")[1] || (scheme === "https" ? "443" : "80");
}

function lastOf(header) {
  return (header || "").split(",").pop().trim();
}

function sha256(text) {
  return crypto.createHash("sha256").update(text).digest("hex");
}

// The SHA-256 of everything by which this request may have signed in: tokens as sent, values of
// cookies as sent, and the token inside a cookie that the notebook server has signed (its form is
// "2|1:0|10:<time>|<n>:<name>|<n>:<base64 of the token>|<signature>").  Only digests are kept.
export function credentials(req) {
  const found = new Set();
  const bearer = /^\s*(?:token|bearer)\s+(\S+)/i.exec(req.headers.authorization || "");
  if (bearer) found.add(sha256(bearer[1]));
  const query = (req.url || "").split("?")[1];
  const token = query && new URLSearchParams(query).get("token");
  if (token) found.add(sha256(token));
  for (const part of (req.headers.cookie || "").split(";")) {
    const at = part.indexOf("=");
    if (at < 0 || PORTAL_COOKIE.test(part.trim())) continue;
    const value = part.slice(at + 1).trim().replace(/^"|"$/g, "");
    found.add(sha256(value));
    const inner = signedValue(value);
    if (inner) found.add(sha256(inner));
  }
  return found;
}

function signedValue(cookie) {
  const fields = cookie.split("|");
  if (fields.length !== 6 || fields[0] !== "2") return "";
  const encoded = fields[4].slice(fields[4].indexOf(":") + 1);
  return Buffer.from(encoded, "base64").toString("utf8");
}
