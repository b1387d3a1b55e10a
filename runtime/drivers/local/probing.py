"""Waiting for a workload to answer, without trusting whoever took its port."""

import asyncio
import contextlib

from runtime.drivers.local.listeners import LOOPBACK

FIRST_S, LAST_S = 0.025, 0.2
_PATIENT_AFTER_S = 20.0
_CROWD = 4  # so many may be asked every 25 ms; more share the same effort
_ANSWER_S = 5.0


def delay(waited_s: float, crowd: int) -> float:
    """Return how long to wait before asking again: often at first, seldom in a crowd."""
    eager = FIRST_S * max(1.0, crowd / _CROWD)
    return min(LAST_S, eager if waited_s < _PATIENT_AFTER_S else LAST_S)


async def answers(port: int, path: str, status: int) -> bool:
    """True when an HTTP GET of ``path`` is answered with ``status``."""
    with contextlib.suppress(OSError, TimeoutError, ValueError):
        async with asyncio.timeout(_ANSWER_S):
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
