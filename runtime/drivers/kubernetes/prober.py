"""Asking young pods directly whether they answer, some tenths of a second before the node does.

The node's own probe runs once a second and is told later still. While a pod starts, the process
that watches asks the same question at the pod's address; the first right answer counts. Where
a network policy keeps it away nothing is lost: the node's word comes a little later. One thread
asks all pods, each question is short, and a pod that stays silent is asked less and less often.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.access import Check
from runtime.protocol import DriverError

log = structlog.get_logger(__name__)

FIRST_S = 0.05
SLOW_AFTER_S = 20.0
SLOW_S = 1.0
_OVER_S = 300.0
_QUESTION_S = 1.0
_AT_ONCE = 256
_LINE_MAX = 256
_GOOD = range(200, 400)


@dataclass(frozen=True)
class Question:
    """One pod's own probe."""

    pod_uid: str
    host: str
    port: int
    path: str


class Prober:
    """``ask`` and ``forget`` from any thread; ``answered`` is called in the prober's."""

    def __init__(self, check: Check, answered: Callable[[str], None]) -> None:
        self._check = check
        self._answered = answered
        self._lock = threading.Lock()
        self._asked: dict[str, asyncio.Task[None] | None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def ask(self, question: Question) -> None:
        """Begin to ask; a pod that is asked already, or one too many, changes nothing."""
        with self._lock:
            if question.pod_uid in self._asked or len(self._asked) >= _AT_ONCE:
                return
            self._asked[question.pod_uid] = None
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run, args=(self._loop,), name="kube-prober", daemon=True
                )
                self._thread.start()
            loop = self._loop
        loop.call_soon_threadsafe(self._begin, question)

    def forget(self, pod_uid: str) -> None:
        with self._lock:
            task = self._asked.pop(pod_uid, None)
            loop = self._loop
        if task is not None and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
            self._asked.clear()
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    # --- inside ---------------------------------------------------------------------------------

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            with contextlib.suppress(RuntimeError):
                loop.run_until_complete(asyncio.sleep(0))
            loop.close()

    def _begin(self, question: Question) -> None:
        task = asyncio.ensure_future(self._follow(question))
        with self._lock:
            if question.pod_uid in self._asked:
                self._asked[question.pod_uid] = task
            else:
                task.cancel()

    async def _follow(self, question: Question) -> None:
        try:
            self._check(question.host)
        except DriverError as error:
            log.warning("kubernetes.pod_address", error=str(error))
            return
        begun = time.monotonic()
        while (age := time.monotonic() - begun) < _OVER_S:
            if await _answers(question):
                with self._lock:
                    self._asked.pop(question.pod_uid, None)
                self._answered(question.pod_uid)
                return
            await asyncio.sleep(FIRST_S if age < SLOW_AFTER_S else SLOW_S)


async def _answers(question: Question) -> bool:
    try:
        async with asyncio.timeout(_QUESTION_S):
            return await _status(question) in _GOOD
    except (OSError, TimeoutError, ValueError):
        return False


async def _status(question: Question) -> int:
    """Return the status of one GET; nothing of the answer but its first line is read."""
    reader, writer = await asyncio.open_connection(question.host, question.port, limit=_LINE_MAX)
    try:
        request = (
            f"GET {question.path} HTTP/1.1\r\nHost: {question.host}:{question.port}\r\n"
            "User-Agent: kube-probe/berth\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        )
        writer.write(request.encode("ascii"))
        first = await reader.readline()
        words = first.split(b" ", 2)
        is_http = len(words) > 1 and words[0].startswith(b"HTTP/1.")
        return int(words[1]) if is_http else 0
    finally:
        writer.close()


def question_of(pod: Mapping[str, Any]) -> Question | None:
    """Return what the node asks the main container, once the pod has an address."""
    host = (pod.get("status") or {}).get("podIP")
    for container in (pod.get("spec") or {}).get("containers") or []:
        asked = (container.get("startupProbe") or {}).get("httpGet")
        if host and asked and container["name"] in names.MAINS:
            uid, path = pod["metadata"].get("uid", ""), str(asked.get("path", "/"))
            return Question(uid, str(host), int(asked["port"]), path)
    return None
