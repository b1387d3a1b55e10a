"""Requests that go on while something happens to the portal, and how many were lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Self

import httpx

from tests.deploy.chart import HOST

TRIES = 10


class Load:
    """Requests one after another in a few threads, each on a connection of its own."""

    def __init__(self, address: str, threads: int = 4) -> None:
        self.url = f"http://{address}/accounts/login/"
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.sent, self.failed, self.lost = 0, 0, 0
        self.why: Counter[str] = Counter()
        self.threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def _run(self) -> None:
        while not self.stop.is_set():
            first = self._ask()
            second = first or any(self._again() for _ in range(TRIES))
            with self.lock:
                self.sent += 1
                self.failed += not first
                self.lost += not second

    def _again(self) -> bool:
        """What an ingress does for a GET that nobody answered."""
        time.sleep(0.2)
        return self._ask()

    def _ask(self) -> bool:
        try:
            headers = {"Host": HOST, "X-Forwarded-Proto": "https"}
            answer = httpx.get(self.url, headers=headers, trust_env=False, timeout=90)
        except httpx.HTTPError as error:
            self.why[type(error).__name__] += 1
            return False
        if answer.status_code != httpx.codes.OK:
            self.why[str(answer.status_code)] += 1
        return answer.status_code == httpx.codes.OK


def say(what: str, load: Load) -> None:
    counts = f"{load.sent} requests, {load.failed} failed once, {load.lost} lost"
    print(f"{what}: {counts} {dict(load.why)}")  # noqa: T201 - a measurement
