"""The operator's own authority is believed by the libraries that go out on their own."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from allauth.socialaccount.adapter import get_adapter

from common.trust import SmtpBackend, authorities
from tests.common.test_outbound import certificate


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    path = certificate(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as made:
        made.socket = context.wrap_socket(made.socket, server_side=True)
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"https://localhost:{made.server_port}/", path
        made.shutdown()
        thread.join()


def test_single_sign_on_believes_it(
    server: tuple[str, Path], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, authority = server
    monkeypatch.setenv("NO_PROXY", "localhost")
    with (
        get_adapter().get_requests_session() as session,
        pytest.raises(requests.exceptions.SSLError),
    ):
        session.get(url)
    settings.BERTH_OUTBOUND_CA_FILE = str(authority)
    with get_adapter().get_requests_session() as session:
        assert session.get(url).status_code == 204


def test_mail_believes_it(server: tuple[str, Path], settings: Any) -> None:
    settings.BERTH_OUTBOUND_CA_FILE = str(server[1])
    assert SmtpBackend().ssl_context is authorities()
