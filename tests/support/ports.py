"""Ports for the servers of tests: looked for now, listened on a moment later."""

from __future__ import annotations

import os
import secrets
import socket

from devcluster.layout import PORTS

WORKERS = 3  # of tools/run_tests.py
STEP = 37
# Below what the kernel gives to outgoing connections: one of those could take such a port before
# its server listens, or while it is started again. Workloads take 21000 to 31999.
FIRST, SPAN = 13000, 7900 // WORKERS
SLOTS = SPAN // STEP
# The cluster may come up while tests run, and its ports are the same each time.
OF_THE_CLUSTER = {port for places in PORTS.values() for _host, port in places}

_last = secrets.randbelow(SLOTS)  # other runs on this machine begin elsewhere


def free_ports(count: int, host: str = "127.0.0.1") -> int:
    """Return the first of ``count`` consecutive free ports, others than at the last call.

    Each worker of a run has a range of its own: between this look and the server's start another
    one would find the same ports free.
    """
    global _last  # noqa: PLW0603 - one sequence for all that this process starts
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    for _ in range(SLOTS):
        _last = (_last + 1) % SLOTS
        base = FIRST + worker * SPAN + _last * STEP
        if all(_free(host, base + i) for i in range(count)):
            return base
    message = "no free ports"
    raise RuntimeError(message)


def free_port(host: str = "127.0.0.1") -> int:
    return free_ports(1, host)


def _free(host: str, port: int) -> bool:
    if port in OF_THE_CLUSTER:
        return False
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
