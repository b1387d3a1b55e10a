"""What other tests do to this machine's network changes nothing for the browser."""

from __future__ import annotations

import secrets
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.browser,
    pytest.mark.root,
    pytest.mark.real,
    pytest.mark.long("guards the browser"),
]

PARTS = 60  # more than the six connections that a browser opens at once: most of them wait
ANSWER_S = 0.3
ADDRESS = "198.51.100.1/32"  # for documentation: nobody has it (RFC 5737)


class Slow(BaseHTTPRequestHandler):
    """A page of many style sheets, each of which takes its time."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        sheets = "".join(f"<link rel=stylesheet href=/{n}.css>" for n in range(PARTS))
        body, kind = (sheets, "text/html") if self.path == "/" else ("a{}", "text/css")
        if kind == "text/css":
            time.sleep(ANSWER_S)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def slow() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def interface() -> Iterator[tuple[str, ...]]:
    """What gives this machine an interface with an address, as a new pod does."""
    near = f"bt{secrets.token_hex(4)}"
    yield (
        f"ip link add {near} type veth peer name {near}p",
        f"ip address add {ADDRESS} dev {near}",
        f"ip link set {near} up",
        f"ip link set {near}p up",
    )
    subprocess.run(["ip", "link", "delete", near], check=False)


def test_a_page_arrives_whole_though_an_interface_appears_meanwhile(
    chromium: Browser, slow: str, interface: tuple[str, ...]
) -> None:
    page = chromium.new_page()
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(f"{request.failure} {request.url}"))
    page.goto(slow, wait_until="commit")
    for command in interface:
        subprocess.run(command.split(), check=True)
    page.wait_for_load_state("load")
    assert page.evaluate("document.styleSheets.length") == PARTS
    assert failed == []
    page.close()
