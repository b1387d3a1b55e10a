"""Callers of an endpoint by one address: many a second, and one that hears a stream."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from typing import Self

THREADS, A_SECOND = 10, 50
FOR_S = 30.0  # an answer that takes longer is none


class Calls:
    """Fifty a second: half of the callers keep their connection, the others make one each time."""

    def __init__(self, address: str, path: str, key: str) -> None:
        self.address, self.path = address, path
        self.headers = {"Authorization": f"Bearer {key}"}
        self.answered = 0
        self.lost: Counter[str] = Counter()
        self.longest_s = 0.0
        self._stop, self._lock = threading.Event(), threading.Lock()
        run = [threading.Thread(target=self._call, args=(n,), daemon=True) for n in range(THREADS)]
        self._threads = run

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self, number: int) -> None:
        keeps = number % 2 == 0
        line = http.client.HTTPConnection(self.address, timeout=FOR_S)
        due = time.monotonic() + number / A_SECOND
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + THREADS / A_SECOND, time.monotonic() - 1)
            began = time.monotonic()
            try:
                line.request("GET", self.path, headers=self.headers)
                answer = line.getresponse()
                said = f"{answer.status} {answer.read(200)!r}" if answer.status != 200 else ""
                answer.read()
            except (OSError, http.client.HTTPException) as error:
                said = repr(error)
            if said or not keeps:
                line.close()
            with self._lock:
                self.answered += not said
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                if said:
                    self.lost[said] += 1

    def since(self, count: int) -> int:
        """Return how many were answered beyond ``count``."""
        with self._lock:
            return self.answered - count


class Stream:
    """Server-sent events, heard until they end."""

    def __init__(self, address: str, path: str, key: str) -> None:
        self.line = http.client.HTTPConnection(address, timeout=FOR_S)
        self.line.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        self.answer = self.line.getresponse()
        assert self.answer.status == 200, self.answer.read(500)
        self.numbers: list[int] = []
        self.ended_at = 0.0
        self._thread = threading.Thread(target=self._hear, daemon=True)
        self._thread.start()

    def _hear(self) -> None:
        try:
            for line in self.answer:
                if line.startswith(b"data: "):
                    self.numbers.append(int(line[6:]))
        except (OSError, http.client.HTTPException):
            pass
        self.ended_at = time.monotonic()

    @property
    def is_whole(self) -> bool:
        """Whether each event came, once and in its order."""
        return self.numbers == list(range(len(self.numbers)))

    def close(self) -> None:
        self.line.close()
        if self.line.sock is not None:
            self.line.sock.close()
