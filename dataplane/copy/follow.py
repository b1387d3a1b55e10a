"""Hashes that can't be joined: a follower reads a large file just behind what has arrived."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from dataplane.copy import checksums
from dataplane.copy.checksums import CRCS, LENGTH, READ, Check
from dataplane.copy.engine import Engine
from dataplane.copy.stores.base import Item, Multipart

FOLLOW = 8 * 1024 * 1024  # it is woken for this much


class Follower:
    """Hashes a file in order while it grows; ``part``: in parts, as a multipart ETag is made."""

    def __init__(self, check: Check, fd: int, size: int, parts: Multipart | None) -> None:
        self.sure = parts is None or parts.sure
        part = parts.size if parts else 0
        self._check = check
        self._fd = fd
        self._size = size
        self._part = part
        self._name = "md5" if part else check.name
        self._hashing: Any = checksums.hasher("md5") if part else check.hasher()
        self._digests: list[bytes] = []
        self._at = 0
        self._running: asyncio.Future[None] | None = None
        self._ending = False  # one thread at a time

    @classmethod
    def of(cls, check: Check, parts: Multipart | None, fd: int, item: Item) -> Follower | None:
        if check.name in CRCS or check.name == LENGTH:
            return None
        return cls(check, fd, item.size, parts)

    def wake(self, engine: Engine, frontier: int) -> None:
        idle = self._running is None or self._running.done()
        if idle and not self._ending and frontier - self._at >= FOLLOW:
            loop = asyncio.get_running_loop()
            self._running = loop.run_in_executor(engine.hands.pool, self._go_on, frontier)

    async def rest(self) -> None:
        """Wait until no thread reads any more; none begins after that."""
        self._ending = True
        if self._running is not None:
            await asyncio.wait([self._running])

    async def matches(self, engine: Engine) -> bool:
        await self.rest()
        await engine.threaded(self._go_on, self._size)
        if not self._part:
            return self._check.of_results({}, self._hashing)
        self._digests.append(self._hashing.digest())
        whole = checksums.hasher("md5")
        whole.update(b"".join(self._digests))
        return f"{whole.hexdigest()}-{len(self._digests)}" == self._check.expected

    def _go_on(self, frontier: int) -> None:
        view = memoryview(bytearray(READ))
        while self._at < frontier:
            most = frontier - self._at
            if self._part:
                if self._at and self._at % self._part == 0:
                    self._digests.append(self._hashing.digest())
                    self._hashing = checksums.hasher(self._name)
                most = min(most, self._part - self._at % self._part)
            count = os.preadv(self._fd, [view[: min(most, READ)]], self._at)
            if not count:
                return
            self._hashing.update(view[:count])
            self._at += count
