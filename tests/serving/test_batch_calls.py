"""The model server beside a batch prediction: how it is started, ended, and told of."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.programs.batch_calls import AWAY, OwnServer, StoppedError

ANSWERS = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Ready(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *words):
        pass
HTTPServer(("127.0.0.1", int(sys.argv[-1])), Ready).serve_forever()
"""


@pytest.fixture
def server() -> Iterator[OwnServer]:
    made = OwnServer("sklearn", Path("m"), "m")
    yield made
    made.end()


def runs(server: OwnServer, code: str) -> None:
    server.words = [sys.executable, "-c", code]


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("pass", AWAY),
        ("raise SystemExit(66)", 66),
        ("import os; os.kill(os.getpid(), 9)", 137),
    ],
)
def test_a_server_that_ends_before_it_is_ready_is_no_success(server, code, wanted) -> None:
    runs(server, code)
    with pytest.raises(StoppedError, match="before it was ready") as told:
        server.revive()
    assert told.value.code == wanted


def test_each_start_has_a_port_of_its_own(server) -> None:
    runs(server, ANSWERS)
    server.revive()
    first, process = server.url, server.process
    assert process is not None
    process.kill()
    process.wait()
    with subprocess.Popen([sys.executable, "-c", ANSWERS, first.rpartition(":")[2]]) as other:
        server.revive()  # another program has that port by now
        other.kill()
    assert server.url != first
    assert server.process is not process


def test_after_its_end_none_is_started_also_by_who_was_just_about_to(server) -> None:
    runs(server, ANSWERS)
    server.revive()
    found: list[str] = []

    def revive() -> None:
        try:
            while True:
                server.revive()
        except StoppedError as problem:
            found.append(str(problem))

    threads = [threading.Thread(target=revive) for _one in range(4)]
    for one in threads:
        one.start()
    time.sleep(0.2)
    server.end()
    for one in threads:
        one.join(10)
    assert len(found) == 4
    assert server.process is not None
    assert server.process.poll() == -signal.SIGKILL
    server.process = None
    with pytest.raises(StoppedError, match="stopped"):
        server.revive()
    assert server.process is None


def test_it_is_killed_also_from_the_middle_of_a_wait_for_its_end(server) -> None:
    """A handler of a signal interrupts whatever the program does, with its locks held."""
    runs(server, ANSWERS)
    server.revive()
    process = server.process
    assert process is not None
    with server.lock, server.reviving, process._waitpid_lock:  # type: ignore[attr-defined]
        server.kill()
    assert process.wait(10) == -signal.SIGKILL
