"""The worker's thread that hears wake-ups which other processes send over the bus.

A wake-up that nobody hears goes by Celery instead (runtime.tasks.wake); one that is lost costs the
time until the next sweep.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runtime.bus_backends import ENGINE_CHANNEL, MAX_BYTES, RedisBus, UnixBus, backend, unpack

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
