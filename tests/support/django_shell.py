"""``manage.py shell`` for tests that ask often: Django is started once, each code runs in a fork.

A start of Django costs more than a CPU second, a fork some hundredths of one. A fork begins without
a connection and with nothing remembered, as a new process does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.memory import loading

ROOT = Path(__file__).resolve().parents[2]


class DjangoShell:
    """One started Django. ``env`` says its settings; what codes print goes to ``log``."""

    def __init__(self, env: Mapping[str, str], log: Path) -> None:
        self.env = dict(env)
        self._turn = threading.Lock()
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.django_shell"],
                cwd=ROOT,
                env=self.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
            )
        self._log = log

    def run(self, code: str) -> Any:
        """Run ``code``; return what it assigned to ``answer``. RuntimeError with its traceback."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with self._turn:
            try:
                process.stdin.write(json.dumps(code) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BaseException:  # of a test whose time is over: nobody else gets this answer
                process.kill()
                process.wait()
                raise
        if not line:
            said = self._log.read_text(errors="replace")[-4000:]
            message = f"the shell ended with {process.wait(10)}:\n{said}"
            raise RuntimeError(message)
        found = json.loads(line)
        if "error" in found:
            message = f"{code}\n{found['error']}"
            raise RuntimeError(message)
        return found["answer"]

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        self._process.communicate()  # the end of its input ends it


def serve() -> None:
    with loading():  # and no fork looks at, and so copies, what it got from here
        import django

        django.setup()
        from django.core.management.commands.shell import Command
        from django.urls import get_resolver

        _ = get_resolver().url_patterns  # what most codes import, so that no fork does it again
        names = Command().get_namespace()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what codes print is no answer
    for line in sys.stdin:
        answers.write(_in_a_fork(json.loads(line), names) + "\n")
        answers.flush()


def _in_a_fork(code: str, names: dict[str, Any]) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as out:
            out.write(_result(code, dict(names)))
        sys.stdout.flush()
        os._exit(0)  # nothing of the parent is ended with it
    os.close(writing)
    with os.fdopen(reading) as text:
        said = text.read()
    _pid, status = os.waitpid(child, 0)
    return said or json.dumps({"error": f"ended with {os.waitstatus_to_exitcode(status)}"})


def _result(code: str, names: dict[str, Any]) -> str:
    try:
        exec(code, names)
        return json.dumps({"answer": names["answer"]})
    except BaseException:  # noqa: BLE001 - an exit of the code is an answer too
        return json.dumps({"error": traceback.format_exc()})


if __name__ == "__main__":
    serve()
