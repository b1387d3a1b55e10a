"""boto3 and google-cloud-storage as programs that stay: to import them takes longer than to use them."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

from tests.support.store_programs import end_with_parent, stores_bin

PROGRAM = Path(__file__).resolve().parent / "store_client.py"
KEPT = 2  # of one store: its own keys and those of another user
END_WITHIN_S = 10.0


class Client:
    """One client of one store with one key; orders and answers are a line each."""

    def __init__(self, about: dict[str, Any], folder: Path) -> None:
        self._lock = threading.Lock()
        self._log = folder / "client.log"
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                [stores_bin() / "python", PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(folder)},
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, loaded before
            )
        self._ask(about)

    @property
    def is_there(self) -> bool:
        return self._child.poll() is None

    def orders(self, orders: list[dict[str, Any]]) -> list[Any]:
        return list(self._ask(orders))

    def _ask(self, question: Any) -> Any:
        with self._lock:
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            try:
                self._child.stdin.write(json.dumps(question) + "\n")
                self._child.stdin.flush()
                line = self._child.stdout.readline()
            except BrokenPipeError:
                line = ""
        if not line:
            raise RuntimeError(f"The client ended: {self._log.read_text()[-3000:]}")
        answer = json.loads(line)
        if answer["error"]:
            raise RuntimeError(answer["error"][-3000:])
        return answer["answers"]

    def end(self) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        try:
            self._child.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()


class Clients:
    """The clients of one store, the last one used last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clients: dict[str, Client] = {}

    def of(self, about: dict[str, Any]) -> Client:
        key = json.dumps(about, sort_keys=True)
        client = self._clients.pop(key, None)
        if client is not None and not client.is_there:  # the thread that began it is over
            client.end()
            client = None
        while len(self._clients) >= KEPT:
            self._clients.pop(next(iter(self._clients))).end()
        client = client or Client(about, self._folder)
        self._clients[key] = client
        return client

    def end(self) -> None:
        for client in self._clients.values():
            client.end()
        self._clients.clear()
