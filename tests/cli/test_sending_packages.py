"""A package on a bad line: sent once more from its beginning, or told plainly that nothing is kept."""

from __future__ import annotations

import io
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from berth_cli import client
from berth_cli.client import EXIT_UNREACHABLE, ApiError, Client

CONTENT = b"x" * (3 * 2**20)
Served = Callable[[int], tuple[str, list[int]]]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A portal that cuts the first connections after a MiB and takes the next as a whole."""
    monkeypatch.setattr(client, "_SENT_AGAIN_S", (0.01, 0.01))
    started: list[socketserver.BaseServer] = []

    def start(cuts: int) -> tuple[str, list[int]]:
        came: list[int] = []

        class Portal(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                is_cut = len(came) < cuts
                length = int(self.headers["Content-Length"])
                came.append(len(self.rfile.read(2**20 if is_cut else length)))
                if is_cut:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(201)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_said: Any) -> None:
                """Say nothing."""

        server = HTTPServer(("127.0.0.1", 0), Portal)
        started.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}", came

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def test_a_line_that_breaks_twice_is_sent_over_again(served: Served) -> None:
    url, came = served(2)
    told: list[int] = []
    answer = Client(url, "t").send("packages", io.BytesIO(CONTENT), len(CONTENT), told.append)
    assert (answer, came) == ({}, [2**20, 2**20, len(CONTENT)])
    assert told[-1] == len(CONTENT)


def test_a_line_that_goes_on_breaking_is_said_with_what_to_do(served: Served) -> None:
    url, came = served(9)
    with pytest.raises(ApiError, match="Nothing of it is kept: send it again") as error:
        Client(url, "t").send("packages", io.BytesIO(CONTENT), len(CONTENT), lambda _n: None)
    assert (error.value.exit_code, len(came)) == (EXIT_UNREACHABLE, 3)
