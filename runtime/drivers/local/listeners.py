"""Free ports, and who really listens on one.

Between choosing a port and the workload's bind, anybody on this machine may take it. So an
address is told only after every listener on that port was seen to be the workload's own.
"""

import random
import socket
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from runtime.drivers.local import procfs

LOOPBACK = "127.0.0.1"
_LISTEN = "0A"


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


def listening(port: int) -> list[tuple[int, int]]:
    """Return (uid, inode) of every socket that would take a connection to this port."""
    found = []
    suffix = f":{port:04X}"
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split(maxsplit=10)
            if fields[3] == _LISTEN and fields[1].endswith(suffix):
                found.append((int(fields[7]), int(fields[9])))
    return found


def judge(port: int, *, uid: int, members: Iterable[int]) -> Listener:
    """Say whose listener it is: of user ``uid`` *and* held by one of ``members``."""
    sockets = listening(port)
    if not sockets:
        return Listener.NOBODY
    if any(owner != uid for owner, _ in sockets):
        return Listener.FOREIGN
    missing = {inode for _, inode in sockets}
    for pid in members:
        missing -= procfs.socket_inodes(pid)
        if not missing:
            return Listener.OWN
    return Listener.FOREIGN
