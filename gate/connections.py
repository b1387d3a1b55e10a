"""Streams to each cluster, made once per process and again when its credential changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from common.streams import look
from runtime.streams import Streams


class Located(Protocol):
    """New streams to a cluster; ``version`` changes with its credential."""

    @property
    def version(self) -> str: ...
    @property
    def streams(self) -> Streams: ...


Locate = Callable[[str, str], Located | None]
KEEP_S = 30.0


class Connections:
    """``locate(key, known_version)`` is synchronous; None: nothing changed."""

    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self._made: dict[str, tuple[str, float, Streams]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def of(self, cluster_key: str) -> Streams:
        async with self._locks.setdefault(cluster_key, asyncio.Lock()):
            clock = asyncio.get_running_loop().time()
            version, looked, streams = self._made.get(cluster_key, ("", 0.0, None))
            if streams is not None and clock - looked < KEEP_S:
                return streams
            found = await look(lambda: self._locate(cluster_key, version))
            if found is not None:
                if streams is not None:
                    await streams.aclose()
                version, streams = found.version, found.streams
            assert streams is not None  # noqa: S101 - locate answers when nothing is known
            self._made[cluster_key] = (version, clock, streams)
            return streams

    async def aclose(self) -> None:
        for _version, _looked, streams in self._made.values():
            await streams.aclose()
        self._made.clear()
