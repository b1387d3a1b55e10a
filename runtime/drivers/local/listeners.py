"""Free ports, who really listens on one, and whether it answers.

Between choosing a port and the workload's bind, anybody on this machine may take it. So an
address is told only after every listener on that port was seen to be the workload's own.
The kernel is asked by netlink (sock_diag(7)); Linux only.
"""

import asyncio
import contextlib
import random
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path

from runtime.drivers.local import processes

FAMILIES = {"tcp": socket.AF_INET, "tcp6": socket.AF_INET6}

_NETLINK_SOCK_DIAG = 4
_BY_FAMILY = 20
_ERROR, _DONE = 2, 3
_REQUEST_DUMP = 0x1 | 0x300
_LISTEN_ONLY = 1 << 10
_HEADER = struct.Struct("=IHHII")
_ASK = struct.Struct("=BBBxI")  # family, protocol, extensions, states
_ID = struct.Struct("!HH16s16s")  # ports and addresses, as on the wire
_INTERFACE = struct.Struct("=III")
_TOLD = struct.Struct("=BBBB")
_NUMBERS = struct.Struct("=IIIII")  # expires, received, sent, uid, inode
_ANSWER_S = 2.0


def in_words(address: bytes) -> str:
    """Spell an address as /proc/net does: 32-bit words in this machine's byte order."""
    words = (address[i : i + 4] for i in range(0, len(address), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


def told_listeners(family: int, port: int) -> list[tuple[str, int, int]]:
    """Return (address in words, uid, inode) of every socket that listens on ``port``.

    OSError when the kernel cannot tell.
    """
    any_peer = _ID.pack(port, 0, b"", b"") + _INTERFACE.pack(0, 0xFFFFFFFF, 0xFFFFFFFF)
    body = _ASK.pack(family, socket.IPPROTO_TCP, 0, _LISTEN_ONLY) + any_peer
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_S)
        kernel.send(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + body)
        found = []
        for told in _messages(kernel):
            its_port, _, address, _ = _ID.unpack_from(told, _TOLD.size)
            if its_port == port:
                *_, uid, inode = _NUMBERS.unpack_from(told, _TOLD.size + _ID.size + _INTERFACE.size)
                size = 4 if family == socket.AF_INET else 16
                found.append((in_words(address[:size]), uid, inode))
        return found


def _messages(kernel: socket.socket) -> Iterator[bytes]:
    while True:
        data = kernel.recv(65536)
        while data:
            length, kind, *_ = _HEADER.unpack_from(data)
            if kind == _DONE:
                return
            if kind == _ERROR:
                number = struct.unpack_from("=i", data, _HEADER.size)[0]
                raise OSError(-number, "the kernel does not tell who listens")
            yield data[_HEADER.size : length]
            data = data[(length + 3) & ~3 :]


LOOPBACK = "127.0.0.1"
_LISTEN = "0A"


_TABLES = {
    "tcp": {in_words(socket.inet_aton(a)) for a in (LOOPBACK, "0.0.0.0")},  # noqa: S104 - looked for
    "tcp6": {in_words(socket.inet_pton(socket.AF_INET6, a)) for a in (f"::ffff:{LOOPBACK}", "::")},
}


class Listener(StrEnum):
    NOBODY = "nobody"
    OWN = "own"
    FOREIGN = "foreign"


def _can_bind(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose_port(first: int, last: int, taken: Iterable[int]) -> int | None:
    """Return a free port of the range, or None. Random, so that nobody can sit on the next."""
    candidates = list(set(range(first, last + 1)) - set(taken))
    random.shuffle(candidates)
    return next((port for port in candidates if _can_bind(port)), None)


Socket = tuple[str, int, int]  # address in words, uid, inode


def listening(port: int) -> list[tuple[int, int]]:
    """Return (uid, inode) of every socket that would take a connection to 127.0.0.1:port.

    The kernel gives it to a listener of exactly this address, else to one of all addresses. A
    stranger on the same port of another address must not be able to spoil the port.
    """
    exact: list[tuple[int, int]] = []
    general: list[tuple[int, int]] = []
    for table, addresses in _TABLES.items():
        for address, uid, inode in _asked(table, port):
            if address in addresses:
                found = general if not address.strip("0") else exact
                found.append((uid, inode))
    return exact or general


def _asked(table: str, port: int) -> list[Socket]:
    """Ask the kernel for the listeners only: its text tables walk every connection there is.

    Measured on a machine of 24 GiB: 9 ms for the text, 0.2 ms for the question.
    """
    try:
        return told_listeners(FAMILIES[table], port)
    except OSError:  # a kernel without it
        return _read(table, port)


def _read(table: str, port: int) -> list[Socket]:
    try:
        lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    except OSError:
        return []
    rows = (line.split(maxsplit=10) for line in lines)
    return [
        (fields[1].partition(":")[0], int(fields[7]), int(fields[9]))
        for fields in rows
        if fields[3] == _LISTEN and fields[1].endswith(f":{port:04X}")
    ]


def judge(port: int, *, uid: int, members: Callable[[], Iterable[int]]) -> Listener:
    """Say whose listener it is: of user ``uid`` *and* held by one of ``members``."""
    sockets = listening(port)
    if not sockets:
        return Listener.NOBODY
    if any(owner != uid for owner, _ in sockets):
        return Listener.FOREIGN
    missing = {inode for _, inode in sockets}
    for pid in members():
        missing -= processes.socket_inodes(pid)
        if not missing:
            return Listener.OWN
    return Listener.FOREIGN


FIRST_S, LAST_S = 0.025, 0.2
_PATIENT_AFTER_S = 20.0
_CROWD = 4  # so many may be asked every 25 ms; more share the same effort
_HTTP_ANSWER_S = 5.0


def probe_delay(waited_s: float, crowd: int) -> float:
    """Return how long to wait before asking again: often at first, seldom in a crowd."""
    eager = FIRST_S * max(1.0, crowd / _CROWD)
    return min(LAST_S, eager if waited_s < _PATIENT_AFTER_S else LAST_S)


async def answers(port: int, path: str, status: int) -> bool:
    """True when an HTTP GET of ``path`` is answered with ``status``."""
    with contextlib.suppress(OSError, TimeoutError, ValueError):
        async with asyncio.timeout(_HTTP_ANSWER_S):
            return await _ask(port, path) == status
    return False


async def _ask(port: int, path: str) -> int:
    reader, writer = await asyncio.open_connection(LOOPBACK, port, limit=8192)
    try:
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\n"
            f"User-Agent: berth-probe\r\nAccept: */*\r\nConnection: close\r\n\r\n".encode()
        )
        line = await reader.readline()
        return int(line.split()[1]) if line.startswith(b"HTTP/1.") else 0
    finally:
        writer.close()
