"""Who stands around a proxy when many are there, each in a process of its own.

``workloads COUNT [ADDRESS …]`` answers at one port, which it says, of so many loopback addresses
(and of those named): ``/large`` by 10 MiB, whatever else by 1 KiB; into a WebSocket it writes
without end.
``readers PORT COUNT HOSTS [PATTERN]`` opens WebSockets, spread over so many hosts, and reads none.
``load PORT AT_ONCE SECONDS PATH PATTERN HOSTS`` asks hosts in turn, and says in JSON what it saw.

On bare sockets: what these compute themselves must be little beside what the proxy does.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import resource
import select
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
SMALL, LARGE = 1024, 10 * 2**20
HOSTS = "w{}.nb.localhost"
UPGRADE_S = 120.0
AT_ONCE = 50
_FRAME = b"\x82\x7e\x40\x00" + bytes(0x4000)  # 16 KiB, binary
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_END = b"\r\n\r\n"
_BUFFER = 2**20


def address(number: int) -> str:
    """Where workload ``number`` is: targets differ, as those of different pods do."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


def _answer(size: int) -> memoryview:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\n\r\n"
    return memoryview(head.encode() + b"x" * size)


_ANSWERS = {b"GET /large": _answer(LARGE)}
_USUAL = _answer(SMALL)


@dataclass
class _Peer:
    sock: socket.socket
    head: bytes = b""
    out: memoryview = field(default_factory=lambda: memoryview(b""))
    floods: bool = False
    waits: bool = False  # to be able to write


class _Workloads:
    def __init__(self, addresses: list[str]) -> None:
        self.poller = select.epoll()
        self.listeners: dict[int, socket.socket] = {}
        self.peers: dict[int, _Peer] = {}
        self.port = 0
        for one in addresses:
            made = socket.create_server((one, self.port), backlog=1024)
            made.setblocking(False)
            self.port = made.getsockname()[1]
            self.listeners[made.fileno()] = made
            self.poller.register(made, select.EPOLLIN)

    def serve(self) -> None:
        """Until whoever started this closes its input."""
        self.poller.register(sys.stdin, select.EPOLLIN | select.EPOLLHUP)
        while True:
            for fd, events in self.poller.poll():
                if fd == sys.stdin.fileno():
                    return
                if fd in self.listeners:
                    self._accept(self.listeners[fd])
                elif fd in self.peers:
                    self._serve(self.peers[fd], events)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            sock, _ = listener.accept()
            sock.setblocking(False)
            self.peers[sock.fileno()] = _Peer(sock)
            self.poller.register(sock, select.EPOLLIN)

    def _serve(self, peer: _Peer, events: int) -> None:
        try:
            if events & ~select.EPOLLOUT:
                self._read(peer)
            if peer.out:
                self._write(peer)
        except BlockingIOError:
            self._await(peer)
        except (ConnectionError, EOFError):
            self.poller.unregister(peer.sock)
            del self.peers[peer.sock.fileno()]
            peer.sock.close()

    def _read(self, peer: _Peer) -> None:
        data = peer.sock.recv(65536)
        if not data:
            raise EOFError
        if peer.floods:
            return  # what visitors say is not of interest
        peer.head += data
        if _END not in peer.head:
            return
        head, peer.head = peer.head, b""
        key = next(
            (line[18:].strip() for line in head.split(b"\r\n") if _is_key(line)),
            None,
        )
        if key is None:
            peer.out = _ANSWERS.get(head[:10], _USUAL)
            return
        # little on the way: what waits for those who do not read is the proxy's
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32768)
        accepted = base64.b64encode(hashlib.sha1(key + _GUID).digest())
        peer.out = memoryview(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accepted + _END
        )
        peer.floods = True

    def _write(self, peer: _Peer) -> None:
        peer.out = peer.out[peer.sock.send(peer.out) :]
        if not peer.out and peer.floods:
            peer.out = memoryview(_FRAME)
        self._await(peer)

    def _await(self, peer: _Peer) -> None:
        waits = bool(peer.out)
        if waits != peer.waits:
            peer.waits = waits
            more = select.EPOLLOUT if waits else 0
            self.poller.modify(peer.sock, select.EPOLLIN | more)


def _is_key(line: bytes) -> bool:
    return line[:18].lower() == b"sec-websocket-key:"


def readers(port: int, count: int, hosts: int, pattern: str = HOSTS) -> list[socket.socket]:
    """Return WebSockets of which nobody will read more than the answer's first line."""
    held = []
    for begin in range(0, count, AT_ONCE):
        numbers = range(begin, min(begin + AT_ONCE, count))
        several = [_hello(port, pattern.format(number % hosts)) for number in numbers]
        for one in several:
            status = one.recv(12)
            if status != b"HTTP/1.1 101":
                raise RuntimeError(status)
        held += several
    return held


def _hello(port: int, host: str) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    # as over a network: for loopback's huge segments the kernel keeps megabytes for each of them
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1460)
    made.settimeout(UPGRADE_S)
    made.connect(("127.0.0.1", port))
    lines = [
        "GET /api/kernels/some/channels HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
    ]
    made.sendall("\r\n".join([*lines, "", ""]).encode())
    return made


class _Asker:
    """One connection, one request at a time."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.begun, self.head, self.missing, self.received = 0.0, b"", -1, 0

    def ask(self, request: bytes) -> None:
        self.head, self.missing = b"", -1
        self.begun = time.perf_counter()
        self.sock.send(request)

    def took(self, buffer: bytearray) -> float | None:
        """Seconds, when the answer is complete; it must be 200 and say its length."""
        size = self.sock.recv_into(buffer)
        if not size:
            raise ConnectionResetError
        self.received += size
        if self.missing < 0:
            self.head += buffer[:size]
            end = self.head.find(_END)
            if end < 0:
                return None
            if not self.head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(self.head[:end])
            length = self.head[:end].lower().split(b"content-length:", 1)[1]
            self.missing = int(length.split(b"\r\n", 1)[0]) + end + 4 - len(self.head)
        else:
            self.missing -= size
        return None if self.missing else time.perf_counter() - self.begun


def load(port: int, at_once: int, seconds: float, path: str, hosts: list[str]) -> dict[str, Any]:
    requests = [f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() for host in hosts]
    poller, buffer, took = select.epoll(), bytearray(_BUFFER), list[float]()
    askers = {one.sock.fileno(): one for one in (_Asker(port) for _ in range(at_once))}
    for number, (fd, one) in enumerate(askers.items()):
        poller.register(fd, select.EPOLLIN)
        one.ask(requests[number % len(requests)])
    asked, begun = at_once, time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds:
        for fd, _ in poller.poll(1):
            one = askers[fd]
            if (ended := one.took(buffer)) is not None:
                took.append(ended)
                one.ask(requests[asked % len(requests)])
                asked += 1
    rate = len(took) / spent
    took = sorted(took) or [spent]  # none was whole in time: they take longer than that
    return {
        "answers_s": rate,
        "mib_s": sum(one.received for one in askers.values()) / spent / 2**20,
        "median_ms": 1000 * took[len(took) // 2],
        "p99_ms": 1000 * took[round(0.99 * (len(took) - 1))],
        "cpu": time.process_time() / spent,
    }


class Crowd:
    """One of these processes. Leaving it kills it: whoever it held goes without a word."""

    def __init__(self, *words: object) -> None:
        command = [sys.executable, "-m", "tests.proxy.crowd", *map(str, words)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT, text=True)
        assert self.process.stdout is not None
        self.word = self.process.stdout.readline().strip()
        if not self.word:
            self.end()
            message = f"{words[0]} ended early"
            raise RuntimeError(message)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def _say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main(verb: str, *words: str) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if verb == "workloads":
        served = _Workloads([*map(address, range(int(words[0]))), *words[1:]])
        _say(served.port)
        served.serve()
    elif verb == "readers":
        held = readers(*map(int, words[:3]), *words[3:])
        _say(len(held))
        sys.stdin.read()
    else:
        port, at_once, seconds, path, pattern, hosts = words
        names = [pattern.format(number) for number in range(int(hosts))]
        _say(json.dumps(load(int(port), int(at_once), float(seconds), path, names)))


if __name__ == "__main__":
    main(*sys.argv[1:])
