"""Requests and launches that go on while something happens to the portal."""

from __future__ import annotations

import secrets
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

import httpx

from tests.deploy.chart import HOST, Browser

EVERY_S, TRY_AGAIN_S = 1.0, 0.3
TRIES = 60
ASKED_AGAIN = 10


class Launches:
    """One after another in a few threads, as scripts do it: with a key, each until it is answered."""

    def __init__(
        self, path: str, body: dict[str, Any], sign_in: Callable[[], Browser], *, most: int
    ) -> None:
        self.path, self.body, self.most = path, body, most
        self.word = f"during-{secrets.token_hex(2)}-"  # begins their names
        self.made: dict[str, str] = {}  # name → id
        self.tried_again = 0
        self.lost: Counter[str] = Counter()
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._left = iter(range(most))
        self._browsers = [sign_in() for _ in range(2)]
        self._threads = [threading.Thread(target=self._run, args=(b,)) for b in self._browsers]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def answered(self) -> int:
        """Return how many were; one that is refused or never answered ends the test."""
        with self._lock:
            assert not self.lost, self.lost
            return len(self.made)

    def _run(self, browser: Browser) -> None:
        while not self._stop.is_set():
            with self._lock:
                number = next(self._left, None)
            if number is None:
                return
            self._launch(browser, f"{self.word}{number}")
            self._stop.wait(EVERY_S)

    def _launch(self, browser: Browser, name: str) -> None:
        key, why = {"Idempotency-Key": str(uuid.uuid4())}, ""
        for _ in range(TRIES):
            try:
                answer = browser.ask(
                    "POST", self.path, headers=key, json={**self.body, "name": name}
                )
                why = f"{answer.status_code} {answer.text[:200]}"
            except httpx.HTTPError as error:
                answer, why = None, type(error).__name__
            if answer is not None and answer.is_success:
                with self._lock:
                    self.made[name] = answer.json()["id"]
                return
            if answer is not None and not answer.is_server_error:
                break
            with self._lock:
                self.tried_again += 1
            threading.Event().wait(TRY_AGAIN_S)
        with self._lock:
            self.lost[why] += 1


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
            second = first or any(self._again() for _ in range(ASKED_AGAIN))
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
