"""Half-open requests to the notebook proxy are let go, and keep nobody out."""

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.proxy.conftest import PATIENCE_S, Proxy, Workload, start_proxy, stop_proxy

pytestmark = pytest.mark.real
HOST = "a.nb.localhost"
HALF = b"GET / HTTP/1.1\r\nHost: a.nb.loc"
OWED_S = 1.0


@pytest.fixture
def impatient(tmp_path: Path, workload: Workload) -> Iterator[Proxy]:
    words = ["--host-routing", "--owed", str(OWED_S), "--connections-per-address", "40"]
    one = start_proxy(tmp_path, *words)
    one.route(HOST, workload.port)
    yield one
    stop_proxy(one)


def opened(proxy: Proxy, said: bytes, source: str = "127.0.0.1") -> socket.socket:
    one = socket.create_connection(("127.0.0.1", proxy.port), PATIENCE_S, (source, 0))
    one.sendall(said)
    return one


def rest(one: socket.socket) -> bytes:
    """What is said until the other side hangs up."""
    found = b""
    try:
        while part := one.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


def trickle(one: socket.socket) -> None:
    try:
        while True:
            one.sendall(b"a")
            time.sleep(OWED_S / 10)
    except OSError:
        pass


@pytest.mark.parametrize(
    "said",
    [HALF, b"", f"POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 9999\r\n\r\n".encode()],
)
def test_a_request_that_does_not_come_is_cut(impatient: Proxy, said: bytes) -> None:
    one = opened(impatient, said)
    if said:
        threading.Thread(target=trickle, args=(one,), daemon=True).start()
    began = time.monotonic()
    rest(one)
    assert time.monotonic() - began < PATIENCE_S


class Store(BaseHTTPRequestHandler):
    """A workload that takes what is uploaded."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()


@pytest.fixture
def store() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_what_moves_and_what_is_answered_lives_on(impatient: Proxy, store: int) -> None:
    impatient.route("store.nb.localhost", store)
    raw = socket.create_connection(("127.0.0.1", impatient.port))
    with connect(f"ws://{HOST}:{impatient.port}/ws", sock=raw, proxy=None) as one:
        slow = opened(impatient, f"GET /slow HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        head = "POST / HTTP/1.1\r\nHost: store.nb.localhost\r\nContent-Length: 20480\r\n\r\n"
        upload = opened(impatient, head.encode())
        for _ in range(20):
            upload.sendall(b"x" * 1024)
            time.sleep(OWED_S / 5)
        assert b" 204 " in upload.recv(65536)
        one.send("hello")
        assert one.recv(PATIENCE_S) == "hello"
        slow.setblocking(False)
        with pytest.raises(BlockingIOError):
            slow.recv(1)


def test_half_open_requests_of_one_address_keep_nobody_out(
    tmp_path: Path, workload: Workload
) -> None:
    proxy = start_proxy(tmp_path, "--host-routing", "--connections-per-address", "40")
    try:
        proxy.route(HOST, workload.port)
        held = [opened(proxy, HALF) for _ in range(300)]
        whole = f"GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode()
        for source in ("127.0.0.2", "127.0.0.1"):
            assert b"200 OK" in rest(opened(proxy, whole, source))
        assert proxy.api.get("/berth/epoch").status_code == 200
        gone = sum(1 for one in held if _is_closed(one))
        assert gone >= 260
    finally:
        stop_proxy(proxy)


def _is_closed(one: socket.socket) -> bool:
    one.settimeout(0.01)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
