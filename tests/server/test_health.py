"""What a container's health check asks."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from portal.server.serve import health
from tests.support.certificates import certificate


class Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    """One that speaks TLS, with a certificate that nobody vouches for."""
    cert, key = certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    monkeypatch.setenv("BERTH_TLS_CERT", str(cert))
    with ThreadingHTTPServer(("127.0.0.1", 0), Ready) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        monkeypatch.setenv("BERTH_HEALTH_PORT", str(server.server_port))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def test_a_process_that_speaks_tls_is_asked_by_tls(process: ThreadingHTTPServer) -> None:
    assert health() == 0


def test_one_that_is_gone_is_not_well(process: ThreadingHTTPServer) -> None:
    process.server_close()
    assert health() == 1
