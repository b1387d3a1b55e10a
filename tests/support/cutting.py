"""A forward proxy for plain HTTP that cuts answers short, or holds them, as a bad line does."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

BLOCK = 64 * 1024


@dataclass
class Line:
    """``cuts``: for the next answers to ``GET …/file``, after how many bytes; None: whole.

    ``holds`` True: nothing more comes instead of an end, until ``go_on`` is set.
    """

    port: int = 0
    cuts: list[int | None] = field(default_factory=list)
    holds: bool = False
    go_on: threading.Event = field(default_factory=threading.Event)
    pause_s: float = 0.0  # after each block that a client sends
    ranges: list[str] = field(default_factory=list)  # of the requests for files, in order

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def limit(self, head: str) -> int | None:
        if not head.startswith("GET ") or "/file?" not in head.partition("\r\n")[0]:
            return None
        asked = [h for h in head.split("\r\n") if h.lower().startswith("range:")]
        self.ranges.append(asked[0].partition("=")[2] if asked else "")
        return self.cuts.pop(0) if self.cuts else None


@contextmanager
def bad_line() -> Iterator[Line]:
    line = Line()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            _carry(line, self.request)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        line.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield line
        finally:
            line.go_on.set()
            server.shutdown()
            thread.join()


def _carry(line: Line, client: socket.socket) -> None:
    """Carry one request and its answer; a second one needs a new connection."""
    with client.makefile("rb") as reading:
        lines: list[bytes] = []
        while (got := reading.readline()) not in {b"\r\n", b""}:
            lines.append(got)
        if not lines:
            return
        method, url, version = lines[0].decode().split()
        parts = urlsplit(url)
        way = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        kept = [h for h in lines[1:] if not h.lower().startswith((b"connection:", b"proxy-"))]
        head = f"{method} {way} {version}\r\n".encode() + b"".join(kept)
        sizes = [int(h.split(b":")[1]) for h in kept if h.lower().startswith(b"content-length:")]
        with socket.create_connection((parts.hostname or "", parts.port or 80)) as server:
            server.sendall(head + b"Connection: close\r\n\r\n")
            left = sum(sizes)
            while left and (data := reading.read1(min(BLOCK, left))):
                server.sendall(data)
                left -= len(data)
                time.sleep(line.pause_s)
            if left:
                return  # the client is gone, and so is its connection to the server
            _answer(line, client, server, line.limit(head.decode()))


def _answer(line: Line, client: socket.socket, server: socket.socket, limit: int | None) -> None:
    passed = 0
    while data := server.recv(BLOCK if limit is None else min(BLOCK, limit - passed)):
        client.sendall(data)
        passed += len(data)
        if limit is not None and passed >= limit:
            if line.holds:
                line.go_on.wait(600)
            return
