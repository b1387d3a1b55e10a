"""F4: WebSockets that nobody reads, and visitors who leave without a word."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.proxy.conftest import PATIENCE_S, Proxy, Workload
from tests.proxy.crowd import HOSTS, Crowd, address

pytestmark = pytest.mark.real
SOCKETS = 2000
SPREAD = 100  # hosts
ASKED_AFTER_S = 120.0
MIB_EACH = 0.5  # of the proxy's own memory, for a visitor who does not read
KEEPALIVE = "02"  # the timer, in the kernel's table of connections


@pytest.fixture
def workloads(proxy: Proxy) -> Iterator[Crowd]:
    """Those of many hosts; each writes into a WebSocket without end."""
    with Crowd("workloads", SPREAD) as crowd:
        for number in range(SPREAD):
            target = {"target": f"http://{address(number)}:{crowd.word}"}
            host = HOSTS.format(number)
            assert proxy.api.post(f"/routes/{host}", json=target).status_code == 201
        yield crowd


@pytest.fixture
def mute() -> Iterator[socket.socket]:
    """A workload that says yes to one WebSocket, and then neither reads nor hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = []

        def accept() -> None:
            one, _ = server.accept()
            held.append(one)
            one.recv(65536)
            one.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n")
            one.sendall(b"Connection: Upgrade\r\n\r\n")

        threading.Thread(target=accept, daemon=True).start()
        yield server
        for one in held:
            one.close()


def visit(proxy: Proxy, path: str = "/ws", *, upgrade: bool = True) -> socket.socket:
    """Ask for a host's WebSocket, or for an answer that does not come."""
    made = socket.create_connection(("127.0.0.1", proxy.port), PATIENCE_S)
    lines = [f"GET {path} HTTP/1.1", f"Host: {HOSTS.format(0)}"]
    if upgrade:
        lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        lines += ["Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg=="]
    made.sendall("\r\n".join([*lines, "", ""]).encode())
    head = b""
    while upgrade and b"\r\n\r\n" not in head:
        head += made.recv(4096)
        assert head.startswith(b"HTTP/1.1 101"), head
    return made


def opened(proxy: Proxy, workload: int | str) -> int:
    """Connections of visitors, and those to this port: not those that manage routes."""
    mine = psutil.Process(proxy.process.pid).net_connections("tcp")
    return sum(
        one.laddr.port == proxy.port or one.raddr.port == int(workload) for one in mine if one.raddr
    )


def until_closed(count: Callable[[], int], before: int) -> None:
    within(2 * PATIENCE_S, lambda: count() <= before, lambda: f"{count()} open, before {before}")


def files(proxy: Proxy) -> int:
    """Descriptors: a connection that has ended and was not closed is in no table any more."""
    return psutil.Process(proxy.process.pid).num_fds()


def memory_mib(proxy: Proxy) -> float:
    return psutil.Process(proxy.process.pid).memory_info().rss / 2**20


def within(seconds: float, look: Callable[[], bool], what: Callable[[], Any] = str) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def usually(proxy: Proxy) -> float:
    """Seconds that another visitor's answer takes: the median of nine."""

    def asked(number: int) -> float:
        begun = time.monotonic()
        assert proxy.get("/lab", HOSTS.format(number)).status_code == 200
        return time.monotonic() - begun

    return sorted(map(asked, range(9)))[4]


def timer(proxy: Proxy, visitor: socket.socket) -> tuple[str, float]:
    """Which of the kernel's timers runs for this connection at the proxy's end, and for how long."""
    ends = [f"0100007F:{port:04X}" for port in (proxy.port, visitor.getsockname()[1])]
    for row in Path("/proc/self/net/tcp").read_text().splitlines():
        fields = row.split()
        if fields[1:3] == ends:
            kind, ticks = fields[5].split(":")
            return kind, int(ticks, 16) / 100
    return "", 0.0


@pytest.mark.parametrize("upgrade", [True, False], ids=["websocket", "request"])
def test_f4_a_visitor_of_whom_nothing_is_heard_is_asked_whether_he_is_there(
    proxy: Proxy, workload: Workload, upgrade: bool
) -> None:
    proxy.route(HOSTS.format(0), workload.port)
    with visit(proxy, "/ws" if upgrade else "/slow", upgrade=upgrade) as visitor:
        within(PATIENCE_S, lambda: timer(proxy, visitor)[0] == KEEPALIVE)
        assert 0 < timer(proxy, visitor)[1] <= ASKED_AFTER_S


def test_f4_behind_a_visitor_who_left_without_reading_nothing_stays_open(
    proxy: Proxy, workloads: Crowd, tmp_path: Path
) -> None:
    usually(proxy)  # what it keeps open to the workloads is open
    before = files(proxy)
    with Crowd("readers", proxy.port, 30, SPREAD):
        assert opened(proxy, workloads.word) >= 60
        time.sleep(1)  # every buffer on the way is full
    until_closed(lambda: files(proxy), before)
    assert "Uncaught" not in (tmp_path / "proxy.log").read_text()


def test_f4_a_workload_that_does_not_hang_up_is_let_go_when_its_visitor_left(
    proxy: Proxy, mute: socket.socket
) -> None:
    port = mute.getsockname()[1]
    proxy.route(HOSTS.format(0), port)
    until_closed(lambda: opened(proxy, port), 0)  # from the look whether it was up
    with visit(proxy):
        assert opened(proxy, port) == 2
    until_closed(lambda: opened(proxy, port), 0)


@pytest.mark.long("thousands of sockets; fewer: the tests above")
def test_f4_two_thousand_sockets_that_nobody_reads_hurt_nobody(
    proxy: Proxy, workloads: Crowd
) -> None:
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if allowed < 3 * SOCKETS:
        pytest.skip(f"this machine allows {allowed} open files, the proxy needs {3 * SOCKETS}")
    usually(proxy)
    before_s, before_mib, before = usually(proxy), memory_mib(proxy), files(proxy)
    grown = []
    for _ in range(2):
        with Crowd("readers", proxy.port, SOCKETS // 2, SPREAD):
            with Crowd("readers", proxy.port, SOCKETS // 2, SPREAD):
                assert opened(proxy, workloads.word) >= 2 * SOCKETS
                grown.append(memory_mib(proxy) - before_mib)
                assert min(usually(proxy) for _ in range(3)) < before_s + 1
            # half of them has vanished
            assert min(usually(proxy) for _ in range(3)) < before_s + 1
        until_closed(lambda: files(proxy), before)
    assert grown[0] < SOCKETS * MIB_EACH
    # freed, and used again: the allocator gives little of it back to the machine
    assert grown[1] < 1.25 * grown[0]
