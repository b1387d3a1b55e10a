"""Web servers on loopback addresses that a test tells what to answer."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Answering = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """Keeps what it was asked: (method, path, headers)."""

    def __init__(self, host: str, answer: Answering, port: int = 0, tls: Any = None) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.command, self.path, dict(self.headers)))
                answer(self)

            do_HEAD = do_POST = do_GET  # noqa: N815 - the library's names

            def log_message(self, *_args: Any) -> None: ...

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_args: Any) -> None: ...

        self._server = Quiet((host, port), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.host, self.port = self._server.server_address[:2]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def say(body: bytes, status: int = 200, **headers: str) -> Answering:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    return answer


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    running: list[Server] = []

    def start(
        answer: Answering,
        *,
        host: str = "127.0.0.2",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> Server:
        running.append(Server(host, answer, port, tls))
        return running[-1]

    yield start
    for server in running:
        server.close()
