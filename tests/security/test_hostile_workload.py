"""What a workload answers to the portal is a stranger's word."""

import gzip
import threading
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from common.ids import new_uid
from hubapi import activity

ASKED: list[str] = []


@cache
def bomb() -> bytes:
    return gzip.compress(b"[" + b" " * 50_000_000 + b"]")


class Bomb(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        ASKED.append(self.headers.get("Accept-Encoding", ""))
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(bomb())))
        self.end_headers()
        self.wfile.write(bomb())

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    bomb()
    with ThreadingHTTPServer(("127.0.0.1", 0), Bomb) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_compressed_answer_is_never_unfolded(address: str, monkeypatch: Any) -> None:
    import zlib

    def unfold(*_args: Any, **_kwargs: Any) -> Any:
        raise AssertionError("the portal unfolds what a workload compressed")

    monkeypatch.setattr(zlib, "decompressobj", unfold)
    ASKED.clear()
    question = activity.Question(new_uid(), address, "token")
    (reading,) = async_to_sync(activity._ask_all)([question])
    assert not reading.answered
    assert ASKED == ["identity"]
