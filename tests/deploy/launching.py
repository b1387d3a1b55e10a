"""A launch, and many that go on while something happens to the portal until each is answered."""

from __future__ import annotations

import secrets
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

import httpx

from tests.deploy.chart import Browser, until
from tests.deploy.front import Visitor

WORKSPACES = "/api/v1/projects/demo/workspaces"
SIZE = {"cluster": "here", "cpu_milli": 1000, "memory_mib": 1024}
EVERY_S, TRY_AGAIN_S = 1.0, 0.3
TRIES = 60


def launch(browser: Browser | Visitor, **body: Any) -> dict[str, Any]:
    answer = browser.ask("POST", WORKSPACES, json={**SIZE, **body})
    assert answer.status_code in {200, 201, 202}, answer.text
    row = answer.json()

    def look() -> Any:
        now = browser.ask("GET", f"{WORKSPACES}/{row['id']}").json()
        assert now["status"]["phase"] != "failed", now["status"]
        return now if now["status"]["phase"] == "running" else None

    return dict(until("running", look, 300))


class Launches:
    """One after another in a few threads, as scripts do it: with a key, so that trying again is safe."""

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
