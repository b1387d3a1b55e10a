"""The event bus to browsers and to the engine: publish small facts, never data.

Readers look in the database. Topics: ``user:<uid>``, ``project:<uid>``, ``workspace:<uid>``,
``operators``. Messages travel as datagrams on one machine, by Redis between several. A bus that
fails costs freshness of pages, never an action: all errors end here. A wake-up that nobody hears
goes by Celery instead (runtime.tasks.wake); one that is lost costs the time until the next sweep.
"""

import asyncio
import contextlib
import json
import math
import os
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import structlog
from django.conf import settings
from django.db import transaction

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


QUEUE = 64  # messages kept for a slow reader; then it is told to look at everything again
KEPT = 2000  # messages of the past, for pages whose stream opens after they were made
RESYNC: dict[str, Any] = {"kind": "resync"}


def publish(topics: list[str], message: dict[str, Any]) -> None:
    """Send when the surrounding transaction commits; never raises, never blocks for long."""
    if not topics:
        return
    transaction.on_commit(lambda: _send(topics, message), robust=True)


def _send(topics: list[str], message: dict[str, Any]) -> None:
    send(topics, message)


class Subscription:
    """Messages of some topics, for one reader. The topic ``*`` is all of them."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        self._queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(QUEUE)

    def offer(self, topics: set[str], message: dict[str, Any]) -> None:
        if not (topics & self.topics or "*" in topics or "*" in self.topics):
            return
        if self._queue.full():
            while not self._queue.empty():
                self._queue.get_nowait()
            message = RESYNC
        self._queue.put_nowait(message)

    def wake(self) -> None:
        """End the wait of the reader without a message."""
        if not self._queue.full():
            self._queue.put_nowait(None)

    async def get(self, *, timeout_s: float) -> dict[str, Any] | None:
        """Return the next message, None when nothing came for ``timeout_s`` or somebody wakes."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._queue.get()
        except TimeoutError:
            return None


class _Hub:
    """One listener per process (and event loop) that hands messages to all its readers.

    Once begun it listens on: who reads a page before its stream is open may ask what was said
    meanwhile, so the last messages are kept.
    """

    def __init__(self) -> None:
        self.readers: set[Subscription] = set()
        self._task: asyncio.Task[None] | None = None
        self._recent: deque[tuple[float, set[str], dict[str, Any]]] = deque(maxlen=KEPT)
        self._complete_since = math.inf

    async def begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
            await asyncio.sleep(0)  # lets it bind before the reader looks at the database

    async def _run(self) -> None:
        self._begin_anew()
        async for data in backend().listen():
            topics, message = unpack(data)
            if message == RESYNC and "*" in topics:  # the backend itself may have missed some
                self._begin_anew()
            self._recent.append((time.monotonic(), topics, message))
            for reader in list(self.readers):
                reader.offer(topics, message)

    def _begin_anew(self) -> None:
        self._recent.clear()
        self._complete_since = time.monotonic()

    def replay(self, reader: Subscription, age_s: float) -> None:
        """Offer what was said in the last ``age_s``; RESYNC where not all of it is known."""
        since = time.monotonic() - age_s
        is_cut = len(self._recent) == KEPT and self._recent[0][0] > since
        if since < self._complete_since or is_cut:
            reader.offer({"*"}, RESYNC)
            return
        for at, topics, message in self._recent:
            if at >= since:
                reader.offer(topics, message)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, _Hub] = WeakKeyDictionary()


@asynccontextmanager
async def subscription(
    topics: Iterable[str], *, age_s: float | None = None
) -> AsyncIterator[Subscription]:
    """Hear ``topics`` inside the block. Holds no database connection.

    ``age_s``: how old what the reader knows is, in seconds; what was said since then comes first.
    """
    hub = _hubs.setdefault(asyncio.get_running_loop(), _Hub())
    mine = Subscription(topics)
    hub.readers.add(mine)
    try:
        await hub.begin()
        if age_s is not None:
            hub.replay(mine, age_s)
        yield mine
    finally:
        hub.readers.discard(mine)


async def subscribe(topics: Iterable[str]) -> AsyncIterator[dict[str, Any]]:
    """Yield messages of ``topics`` for ever."""
    async with subscription(topics) as mine:
        while True:
            message = await mine.get(timeout_s=3600)
            if message is not None:
                yield message


_AGAIN_S = 1.0  # between tries of a Redis that does not answer
_TURN_S = 0.5  # how long a stop waits for the thread at most


class EngineEar:
    """``wake`` is called with (kind, primary key) of each row that somebody names."""

    def __init__(self, wake: Callable[[str, int], None]) -> None:
        self._wake = wake
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._bound: socket.socket | None = None
        self._path: Path | None = None

    def start(self) -> None:
        bus = backend()
        if isinstance(bus, UnixBus):
            self._bound, self._path = bus.bind("engine")
            self._begin(self._hear_datagrams, self._bound)
        elif isinstance(bus, RedisBus):
            self._begin(self._hear_redis, bus.url)

    def _begin(self, hear: Callable[[Any], None], where: object) -> None:
        self._thread = threading.Thread(target=hear, args=(where,), name="engine-ear", daemon=True)
        self._thread.start()

    def _hear_datagrams(self, bound: socket.socket) -> None:
        while True:
            try:
                data = bound.recv(MAX_BYTES * 2)
            except OSError:
                return
            if not data:
                return
            self._tell(data)

    def _hear_redis(self, url: str) -> None:
        import redis

        while not self._over.is_set():
            client = redis.Redis.from_url(
                url, socket_connect_timeout=2.0, socket_timeout=5.0, health_check_interval=15
            )
            try:
                with client.pubsub(ignore_subscribe_messages=True) as channel:
                    channel.subscribe(ENGINE_CHANNEL)
                    while not self._over.is_set():
                        if (item := channel.get_message(timeout=_TURN_S)) is not None:
                            self._tell(item["data"])
            except (redis.RedisError, OSError):
                self._over.wait(_AGAIN_S)
            finally:
                client.close()

    def _tell(self, data: bytes) -> None:
        _topics, message = unpack(data)
        kind, pk = message.get("kind"), message.get("pk")
        if isinstance(kind, str) and isinstance(pk, int):
            self._wake(kind, pk)

    def stop(self) -> None:
        self._over.set()
        if self._path is not None:
            with (
                contextlib.suppress(OSError),
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last,
            ):
                last.sendto(b"", str(self._path))  # wakes recv
            self._path.unlink(missing_ok=True)
        if self._thread is not None:
            self._thread.join(timeout=2)
        if self._bound is not None:
            self._bound.close()
