"""What a pod hears of a client that keeps to no rules: by a request, and by an upgrade to a
WebSocket."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping
from typing import Any

import httpx
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.cluster.visitors import Person
from tests.hubapi.live.fleet import NAVIGATE

KEPT = "keep"  # nobody's cookie: it shows that cookies come through at all
# Tells the headers it got: as JSON, or as the first message of a WebSocket (a text frame of 126
# bytes or more), which then stays open until the other side leaves.
PROGRAM = r"""
import base64, hashlib, http.server, json

class Hears(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        told = json.dumps({"headers": [list(one) for one in self.headers.items()]}).encode()
        key = self.headers.get("Sec-WebSocket-Key")
        if key is None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)
            return
        accepted = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accepted).decode())
        self.end_headers()
        self.wfile.write(b"\x81\x7e" + len(told).to_bytes(2, "big") + told)
        self.rfile.read(1)
        self.close_connection = True

http.server.ThreadingHTTPServer(("", 8888), Hears).serve_forever()
"""


def container(state: Mapping[str, Any]) -> dict[str, Any]:
    """What a container with this program asks for."""
    return {
        "kind": "container",
        "image": state["images"]["tool"]["reference"],
        "command": ["python3", "-c", PROGRAM],
        "ports": [{"port": 8888, "name": "hears"}],
        "cpu_milli": 200,
        "memory_mib": 256,
        "shm_mib": 32,
    }


def portal_cookies(person: Person) -> dict[str, str]:
    ours = {
        c.name: c.value or ""
        for c in person.http.cookies.jar
        if c.domain in {"localhost", "localhost.local"}
    }
    assert {"berth_session", "berth_csrf"} <= set(ours)
    return ours


def by_request(person: Person, url: str) -> set[str]:
    """Which of all cookies that the person could send to ``url`` by hand reach the pod."""
    sent = _all_cookies(person)
    answer = person.http.get(url, headers={**NAVIGATE, "Cookie": _line(person, url, sent)})
    assert answer.status_code == 200, answer.text
    return _heard(json.loads(answer.text)["headers"], sent)


def by_upgrade(person: Person, url: str) -> set[str]:
    """The same with the request that becomes a WebSocket."""
    sent = _all_cookies(person)
    return _heard(upgraded(url, _line(person, url, sent)), sent)


def upgraded(url: str, cookie: str = "", origin: str = "") -> list[list[str]]:
    """Open a WebSocket; return the headers that the pod tells. ``origin``: another page than its own."""
    target = httpx.URL(url)
    port = target.port or 80
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as sock,
        connect(
            f"ws{url.removeprefix('http')}",
            sock=sock,
            origin=Origin(origin or f"{target.scheme}://{target.netloc.decode()}"),
            additional_headers={"Cookie": cookie} if cookie else {},
            open_timeout=60,
            close_timeout=2,
        ) as ws,
    ):
        told: list[list[str]] = json.loads(ws.recv(timeout=60))["headers"]
    return told


def _all_cookies(person: Person) -> dict[str, str]:
    """The portal's, also by the names that they have with TLS, and nobody's."""
    ours = portal_cookies(person)
    return {**ours, **{f"__Host-{name}": value for name, value in ours.items()}, KEPT: "1"}


def _line(person: Person, url: str, sent: Mapping[str, str]) -> str:
    return "; ".join([person.cookies(url), *(f"{name}={value}" for name, value in sent.items())])


def _heard(told: Iterable[list[str]], sent: Mapping[str, str]) -> set[str]:
    """Names that came as cookies; a value that is secret came in no header at all."""
    secret = [value for name, value in sent.items() if value and name != KEPT]
    found = [(name, value) for name, value in told if any(one in value for one in secret)]
    assert not found, found
    lines = [value for name, value in told if name.lower() == "cookie"]
    return {part.strip().partition("=")[0] for line in lines for part in line.split(";")} & {*sent}
