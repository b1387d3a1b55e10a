"""The few lines that fetch the code of a job and become its program, as a process of its own."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from jobs.code import _BEGIN
from tests.jobs.test_packages import packed

CODE = packed(("trainer/__init__.py", b""), ("trainer/task.py", b"print('begun')\n"))
DIGEST = hashlib.sha256(CODE).hexdigest()
Begin = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def answers() -> list[Any]:
    """What the portal answers, one after the other; bytes are the package."""
    return []


@pytest.fixture
def begin(answers: list[Any]) -> Iterator[Begin]:
    class Portal(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.headers["Authorization"] == "Bearer secret"
            answer = answers.pop(0) if known else 403
            self.send_response(200 if isinstance(answer, bytes) else answer)
            self.end_headers()
            self.wfile.write(answer if isinstance(answer, bytes) else b"")

        def log_message(self, *_said: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Portal)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def run(*words: str, token: str = "secret") -> subprocess.CompletedProcess[str]:
        own = {
            "BERTH_CODE_URL": f"http://127.0.0.1:{server.server_port}/code",
            "BERTH_CODE_TOKEN": token,
            "http_proxy": "http://127.0.0.1:9",  # the portal is asked without it
        }
        return subprocess.run(
            [sys.executable, "-c", _BEGIN, DIGEST, *words],
            env={**os.environ, **own},
            timeout=60,
            check=False,
            capture_output=True,
            text=True,
        )

    yield run
    server.shutdown()
    server.server_close()


def test_it_becomes_the_program_in_the_folder_of_the_code(answers: Any, begin: Begin) -> None:
    answers += [CODE]
    done = begin(sys.executable, "-m", "trainer.task")
    assert (done.returncode, done.stdout, done.stderr) == (0, "begun\n", "")


def test_a_portal_that_restarts_and_half_a_package_are_asked_again(
    answers: Any, begin: Begin
) -> None:
    answers += [503, CODE[:100], CODE]
    script = "import os; print(sorted(n for n in os.environ if n.startswith('BERTH_CODE')))"
    done = begin(sys.executable, "-c", script)
    assert (done.returncode, done.stdout) == (0, "['BERTH_CODE']\n")


def test_a_refusal_ends_it_at_once_with_a_sentence(begin: Begin) -> None:
    done = begin("true", token="wrong")
    assert (done.returncode, done.stdout) == (1, "")
    assert "could not be fetched from the portal: HTTP Error 403" in done.stderr


def test_a_program_that_is_not_there_ends_as_in_a_shell(answers: Any, begin: Begin) -> None:
    answers += [CODE]
    done = begin("no-such-program")
    assert (done.returncode, done.stderr) == (
        127,
        "no-such-program: No such file or directory\n",
    )
