"""What is typed or piped in, read for as long as somebody wants it and no longer."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

_MOST = 32768  # bytes at once
_AHEAD = 4  # pieces that are read before the first of them was sent


class Keyboard:
    """Reads in a thread that nobody waits for.

    A regular file can't be polled and a terminal can't be asked to give up a read, so whoever waits
    for the reader, as the executor of asyncio does at the end, waits for one more key.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(_AHEAD)

    async def read(self) -> AsyncIterator[bytes]:
        """Yield what comes until it ends; the next piece is read only as these are taken."""
        threading.Thread(target=self._fill, name="berth-keyboard", daemon=True).start()
        while data := await self._pieces.get():
            yield data
            self._room.release()

    def _fill(self) -> None:
        data = b"?"
        while data:
            self._room.acquire()
            try:
                data = os.read(self._fd, _MOST)
            except OSError:  # the terminal is gone
                data = b""
            with suppress(RuntimeError):  # the loop has ended: so does this process
                self._loop.call_soon_threadsafe(self._pieces.put_nowait, data)
