"""How messages of the bus travel: datagrams on one machine, Redis between several.

A bus that fails costs freshness of pages, never an action: all errors end here.
"""

import asyncio
import contextlib
import json
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import structlog
from django.conf import settings

log = structlog.get_logger(__name__)

MAX_BYTES = 8192
ENGINE_TOPIC = "engine"
_CHANNEL, ENGINE_CHANNEL = "berth:bus", "berth:engine"
_REST_S = 5.0  # after a failure of Redis, nobody waits for it again for so long


class Backend(Protocol):
    def send(self, topics: list[str], message: dict[str, Any]) -> int:
        """Send now, return how many listeners got it."""

    def listen(self) -> AsyncIterator[bytes]:
        """Yield raw messages until cancelled."""


def pack(topics: list[str], message: dict[str, Any]) -> bytes:
    data = json.dumps({"t": topics, "m": message}, separators=(",", ":")).encode()
    if len(data) <= MAX_BYTES:
        return data
    log.error("bus.too_large", topics=topics[:5], size=len(data))
    return json.dumps({"t": topics[:20], "m": {"kind": "resync"}}).encode()


def unpack(data: bytes) -> tuple[set[str], dict[str, Any]]:
    try:
        parsed = json.loads(data)
        return set(parsed["t"]), dict(parsed["m"])
    except (ValueError, KeyError, TypeError):
        return set(), {}


def send(topics: list[str], message: dict[str, Any]) -> int:
    """Send now; never raises. Returns how many processes got it, as far as known."""
    try:
        return backend().send(topics, message)
    except Exception as error:  # noqa: BLE001 - see the module
        log.warning("bus.send_failed", error=repr(error))
        return 0


class NoBus:
    def send(self, topics: list[str], message: dict[str, Any]) -> int:
        del topics, message
        return 0

    async def listen(self) -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""


class UnixBus:
    """Each listening process binds ``<pid>-<random>.<role>.sock``; senders write to all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def send(self, topics: list[str], message: dict[str, Any]) -> int:
        role = "engine" if ENGINE_TOPIC in topics else "pages"
        data = pack(topics, message)
        return sum(self._send_to(path, data) for path in self._listeners(role))

    def _listeners(self, role: str) -> Iterable[str]:
        with contextlib.suppress(FileNotFoundError):
            return [
                f"{self.folder}/{name}"
                for name in os.listdir(self.folder)  # noqa: PTH208 - hot path
                if name.endswith(f".{role}.sock")
            ]
        return []

    def _send_to(self, path: str, data: bytes) -> bool:
        try:
            self._socket.sendto(data, path)
        except (ConnectionRefusedError, FileNotFoundError):
            with contextlib.suppress(OSError):
                Path(path).unlink()  # its process is gone
            return False
        except OSError:
            return False  # full: that listener is slow and will look again by itself
        return True

    def bind(self, role: str) -> tuple[socket.socket, Path]:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.folder / f"{os.getpid()}-{secrets.token_hex(4)}.{role}.sock"
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        bound.bind(str(path))
        return bound, path

    async def listen(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        bound, path = self.bind("pages")
        bound.setblocking(False)
        try:
            while True:
                yield await loop.sock_recv(bound, MAX_BYTES * 2)
        finally:
            bound.close()
            path.unlink(missing_ok=True)


class RedisBus:
    """One channel for all pages, which pick their topics themselves, and one for workers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._rest_until = 0.0
        self._client: Any = None

    def send(self, topics: list[str], message: dict[str, Any]) -> int:
        import redis

        if time.monotonic() < self._rest_until:
            return 0
        if self._client is None:
            self._client = redis.Redis.from_url(
                self.url, socket_timeout=1.0, socket_connect_timeout=1.0
            )
        # Who follows a page is no worker: only those count who do what a wake-up asks for.
        channel = ENGINE_CHANNEL if ENGINE_TOPIC in topics else _CHANNEL
        try:
            return int(self._client.publish(channel, pack(topics, message)))
        except redis.RedisError:
            self._rest_until = time.monotonic() + _REST_S
            raise

    async def listen(self) -> AsyncIterator[bytes]:
        import redis.asyncio as aioredis
        from redis import RedisError

        while True:
            client = aioredis.Redis.from_url(self.url, socket_connect_timeout=2.0)
            try:
                async with client.pubsub() as channel:
                    await channel.subscribe(_CHANNEL)
                    yield pack(["*"], {"kind": "resync"})  # something may have been missed
                    async for item in channel.listen():
                        if item.get("type") == "message":
                            yield item["data"]
            except (RedisError, OSError):
                await asyncio.sleep(1.0)
            finally:
                await client.aclose()


@cache
def _made(kind: str, where: str) -> Backend:
    if kind == "unix":
        return UnixBus(Path(where))
    if kind == "redis":
        return RedisBus(where)
    return NoBus()


def backend() -> Backend:
    kind = settings.BERTH_BUS
    where = settings.BERTH_REDIS_URL if kind == "redis" else settings.BERTH_BUS_DIR
    return _made(kind, str(where))
