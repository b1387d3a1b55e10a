"""Asks a model for predictions: its own server, which is started beside, or an endpoint."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

READY_WITHIN_S = 900.0
PATIENCE_S = 900.0  # without one answer, while it is told to try again or nobody listens
ANSWER_WITHIN_S = 600.0
MOST_PAUSE_S = 30.0
MOST_STARTS = 50  # of its own server: so often it may end in the middle
IDLE_S = 2.0  # after which a connection may be closed on the other side
MOST_ANSWER = 256 * 2**20
AWAY = 69
BUSY, NOT_LET_IN = {429, 503}, {401, 403, 404}
AUTHORITY = Path(__file__).with_name("authority.pem")  # the operator's own, where there is one
LET_IN_WITHIN_S = 15.0  # a gateway has heard of a new key by then
BROKE_OFF = {502, 504}  # of a gateway: what was sent may have been done
OK, NOT_THERE, TOO_LARGE = 200, 404, 413


class StoppedError(Exception):
    """Why it can't go on, in one sentence, and the exit code."""

    def __init__(self, sentence: str, code: int = AWAY) -> None:
        super().__init__(sentence)
        self.code = code


class BrokenError(Exception):
    """The connection broke after something was sent."""


@dataclass(frozen=True)
class Answer:
    prediction: Any = None
    problem: str = ""
    version: str = ""  # that answered, where an endpoint says it


class Endpoint:
    """Something that answers at an address."""

    again: ClassVar[bool] = False  # whether what broke off may be asked once more

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url, self.key = url.rstrip("/"), key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_why: object) -> None:
        self.end()

    def end(self) -> None:
        """Let go of what was started for it."""

    def kill(self) -> None:
        """End that at once and wait for nothing: whatever the program is just doing."""

    def revive(self) -> None:
        """See that it answers again."""

    def connect(self) -> http.client.HTTPConnection:
        at = urlsplit(self.url)
        where: Any = {"host": at.hostname or "", "port": at.port, "timeout": ANSWER_WITHIN_S}
        if at.scheme == "https":
            return http.client.HTTPSConnection(**where, context=_believed())
        return http.client.HTTPConnection(**where)

    def headers(self) -> dict[str, str]:
        own = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {"Content-Type": "application/json", **own}

    def path(self, rest: str) -> str:
        return urlsplit(self.url).path + rest


@cache
def _believed() -> ssl.SSLContext:
    context = ssl.create_default_context()
    if AUTHORITY.exists():
        context.load_verify_locations(AUTHORITY)
    return context


class OwnServer(Endpoint):
    """The model server, as a process beside; it is started again where it ends."""

    again: ClassVar[bool] = True

    def __init__(self, framework: str, folder: Path, name: str) -> None:
        super().__init__("")
        self.words = [sys.executable, "-m", "serving.programs.model_server"]
        self.words += ["--framework", framework, "--model-dir", str(folder), "--name", name]
        self.process: subprocess.Popen[bytes] | None = None
        self.starts, self.is_over = 0, False
        self.reviving, self.lock = threading.Lock(), threading.Lock()

    def __enter__(self) -> Self:
        self.revive()
        return self

    def end(self) -> None:
        with self.lock:  # who revives it is before this, or starts none any more
            self.is_over = True
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        self.is_over = True
        if self.process is not None:
            self.process.kill()

    def revive(self) -> None:
        """Start it where it does not run, or is just ending; wait until it answers."""
        with self.reviving:
            began, until = False, time.monotonic() + READY_WITHIN_S
            while time.monotonic() < until:
                code = None if self.process is None else self.process.poll()
                if began and code is not None:
                    raise _ended(code)
                if self.process is None or code is not None:
                    self._start()
                    began = True
                with contextlib.suppress(OSError, http.client.HTTPException):
                    one = self.connect()
                    one.request("GET", "/v2/health/ready")
                    if one.getresponse().status == OK:
                        return
                time.sleep(0.05)
        raise StoppedError("The model server is not ready after 15 minutes.")

    def _start(self) -> None:
        """Start it on a port of its own: another program may have that of before by now."""
        with self.lock:
            if self.is_over:
                raise StoppedError("It was stopped.")
            if self.starts >= MOST_STARTS:
                raise StoppedError(f"The model server ended {self.starts} times.")
            self.starts += 1
            with socket.socket() as one:
                one.bind(("127.0.0.1", 0))
                port = one.getsockname()[1]
            self.url = f"http://127.0.0.1:{port}"
            words = [*self.words, "--host", "127.0.0.1", "--port", str(port)]
            self.process = subprocess.Popen(words, env=_without_keys())  # noqa: S603 - ours


def _ended(code: int) -> StoppedError:
    """Say that its own server ended before it was ready: never a success, as shells tell codes."""
    if code < 0:
        said = f"The model server was ended by signal {-code} before it was ready."
        return StoppedError(said, 128 - code)
    said = f"The model server ended with exit code {code} before it was ready."
    return StoppedError(said, code or AWAY)


def _without_keys() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "BERTH_ENDPOINT_KEY"}


class Caller:
    """Asks chunk by chunk from several threads, each with a connection of its own."""

    def __init__(self, asked: Endpoint, name: str) -> None:
        self.asked, self.name = asked, name
        self.where = asked.path(f"/v1/models/{name}:predict")
        self.held = threading.local()
        self.alone = _Alone()
        self.began_at = self.answered_at = time.monotonic()
        self.is_let_in = False
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()

    def takes(self) -> Sequence[Any]:
        """Return its inputs by the metadata of Open Inference; (): it tells none."""
        try:
            status, said, _version = self._sent("GET", self.asked.path(f"/v2/models/{self.name}"))
        except BrokenError as problem:
            raise StoppedError(f"It does not answer: {problem}") from problem
        if status in NOT_LET_IN - {NOT_THERE}:
            raise StoppedError(f"It is not answered: {_sentence(status, said)}")
        inputs = said.get("inputs") if status == OK and isinstance(said, dict) else None
        if isinstance(inputs, list) and all(isinstance(its, dict) for its in inputs):
            return inputs
        return ()

    def answers(self, bodies: Sequence[bytes]) -> list[Answer]:
        """Return what came of each instance, in their order."""
        if not bodies:
            return []
        try:
            with self.alone.beside():
                return self._ask(bodies)
        except BrokenError:
            if not self.asked.again:
                said = "The connection broke before the answer came; it was not sent again."
                return [Answer(problem=said)] * len(bodies)
        return self._one_by_one(bodies)

    def _one_by_one(self, bodies: Sequence[bytes]) -> list[Answer]:
        """Ask alone what was being asked when the server ended, to find what ends it."""
        try:
            with self.alone.alone():
                self.asked.revive()
                return self._ask(bodies)
        except BrokenError:
            if len(bodies) == 1:
                return [Answer(problem="The model server ended while it answered this.")]
        middle = len(bodies) // 2
        return self._one_by_one(bodies[:middle]) + self._one_by_one(bodies[middle:])

    def _ask(self, bodies: Sequence[bytes]) -> list[Answer]:
        """Ask together; where that is refused, ask the halves, so that one spoils no other."""
        body = b'{"instances": [' + b", ".join(bodies) + b"]}"
        status, said, version = self._sent("POST", self.where, body)
        if status == OK:
            made = said.get("predictions") if isinstance(said, dict) else None
            if isinstance(made, list) and len(made) == len(bodies):
                return [Answer(one, version=version) for one in made]
            said = {"error": "The answer has not one prediction for each instance."}
        elif status in NOT_LET_IN:
            raise StoppedError(f"It is not answered: {_sentence(status, said)}")
        if len(bodies) == 1 or status in BROKE_OFF:
            return [Answer(problem=_sentence(status, said))] * len(bodies)
        middle = len(bodies) // 2
        return self._ask(bodies[:middle]) + self._ask(bodies[middle:])

    def _sent(self, method: str, where: str, body: bytes | None = None) -> tuple[int, Any, str]:
        """Send until it is answered: again only where nothing was sent, or it was told to wait.

        Return status, answer, and which version that was.
        """
        pause = 0.2
        while not self.stopped.is_set():
            try:
                status, said, version, wait_s = self._once(method, where, body)
            except ConnectionError as problem:  # nothing was sent
                status, said, wait_s = 0, {"error": str(problem)}, pause
                pause = min(pause * 2, MOST_PAUSE_S)
                if self.asked.again:
                    self.asked.revive()
            else:
                if self._is_unknown(status):
                    wait_s = pause
                elif status not in BUSY:
                    self.answered_at = time.monotonic()
                    return status, said, version
            if time.monotonic() - self.answered_at > PATIENCE_S:
                raise StoppedError(
                    f"Nothing was answered for 15 minutes. {_sentence(status, said)}"
                )
            self.stopped.wait(wait_s)
        raise StoppedError("It was stopped.")

    def _is_unknown(self, status: int) -> bool:
        """Whether its key may be too new to be known where it asks."""
        self.is_let_in = self.is_let_in or status not in NOT_LET_IN | BUSY
        is_new = time.monotonic() - self.began_at < LET_IN_WITHIN_S
        return status in NOT_LET_IN and not self.is_let_in and is_new and bool(self.asked.key)

    def _once(self, method: str, where: str, body: bytes | None) -> tuple[int, Any, str, float]:
        """Return status, answer, version, how long to wait. ConnectionError: nothing was sent."""
        one = self._connection()
        try:
            one.request(method, where, body, self.asked.headers())
            answer = one.getresponse()
            content = answer.read(MOST_ANSWER + 1)
        except (OSError, http.client.HTTPException) as problem:
            one.close()
            raise BrokenError(str(problem)) from problem
        self.held.at = time.monotonic()
        if len(content) > MOST_ANSWER:
            one.close()
            return TOO_LARGE, {"error": "The answer is too large."}, "", 0.0
        said: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            said = json.loads(content)
        after = answer.getheader("retry-after", "")
        wait_s = float(after) if after.isascii() and after.isdigit() and len(after) < 6 else 1.0  # noqa: PLR2004 - digits
        version = answer.getheader("x-berth-version", "")[:64]
        return answer.status, said, version, min(wait_s, MOST_PAUSE_S)

    def _connection(self) -> http.client.HTTPConnection:
        """Return this thread's, connected; a fresh one where the other side may have closed it."""
        one: http.client.HTTPConnection | None = getattr(self.held, "one", None)
        if one is None or one.sock is None or time.monotonic() - self.held.at > IDLE_S:
            if one is not None:
                one.close()
            one = self.asked.connect()
            try:
                one.connect()
            except ssl.SSLCertVerificationError as problem:
                said = f"The certificate of {self.asked.url} is not believed"
                raise StoppedError(f"{said}: {problem.verify_message}.") from problem
            except OSError as problem:
                raise ConnectionError(str(problem)) from problem
            if one.sock is not None:
                one.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.held.one, self.held.at = one, time.monotonic()
        return one


class _Alone:
    """Many at a time, or one alone: who finds out what ends the server disturbs no other."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.many, self.waiting = 0, 0
        self.one = False

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        with self.changed:
            self.changed.wait_for(lambda: not self.one and not self.waiting)
            self.many += 1
        try:
            yield
        finally:
            with self.changed:
                self.many -= 1
                self.changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with self.changed:
            self.waiting += 1
            self.changed.wait_for(lambda: not self.one and not self.many)
            self.waiting -= 1
            self.one = True
        try:
            yield
        finally:
            with self.changed:
                self.one = False
                self.changed.notify_all()


def _sentence(status: int, said: Any) -> str:
    """Return what was answered instead of predictions, of bounded length."""
    error = said.get("error") or said.get("detail") if isinstance(said, dict) else None
    return str(error)[:300] if error else f"The answer has the status {status}."
