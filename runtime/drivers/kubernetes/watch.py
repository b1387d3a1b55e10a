"""One list and one watch for each kind of object, brought together into observations.

Each kind has a thread. It lists once, then watches from there in turns of ``TURN_S``: the
server ends a turn with a bookmark, the next goes on from it, and nothing is ever listed again
while all is well. A turn that is silent beyond its end is a dead connection, noticed within
``TURN_S + SLACK_S`` however the connection died. "410 Gone" lists again. Trouble is retried
with jitter; what lasts longer than ``PATIENCE_S`` ends the watch with Unreachable, and whoever
iterates begins anew with a full list.
"""

from __future__ import annotations

import contextlib
import json
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from runtime.drivers.kubernetes import answers, cluster_cache, names, shapes
from runtime.drivers.kubernetes.access import Check
from runtime.drivers.kubernetes.answers import Answer, Expired, error_of
from runtime.drivers.kubernetes.client import KubeClient, path_of
from runtime.drivers.kubernetes.client import Object as KubeObject
from runtime.drivers.kubernetes.cluster_cache import World
from runtime.drivers.kubernetes.names import Key, key_of
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.prober import Prober
from runtime.drivers.kubernetes.tenant import POLICY, WATCHED
from runtime.protocol import Denied, DriverError, NotYet, Unreachable

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

log = structlog.get_logger(__name__)

TURN_S = 20
SLACK_S = 5.0
PATIENCE_S = 12.0
HEARTBEAT_S = 10.0
AT_ONCE_S = 0.1  # what still comes after that is told in the next turn
_FIRST_S = 30.0
_TELL_S = 1.0
_DENIED_S = 60.0
_FORGOT_S = 5.0
# A server that has just begun refuses for moments what it grants: its roles are not read yet.
BELIEVED_S = 3.0
# Words that come with every pod and tell nothing that the pod itself does not tell.
_QUIET = (
    "Scheduled",
    "Created",
    "Started",
    "Killing",
    "SuccessfulCreate",
    "SuccessfulDelete",
    "Unhealthy",  # each second of every start
)
_ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True)
class Kind:
    """What one thread follows. ``needed``: without it nothing can be said."""

    api_version: str
    plural: str
    kind: str
    selector: str = ""
    fields: str = ""
    needed: bool = False


def kinds_of(options: KubernetesOptions) -> tuple[Kind, ...]:
    ours = names.selector(options.namespace_prefix)
    quiet = ",".join(f"reason!={word}" for word in _QUIET)
    found = [
        Kind("apps/v1", "statefulsets", cluster_cache.SETS, ours, needed=True),
        Kind("v1", "pods", cluster_cache.PODS, ours, needed=True),
        # Without them loads that run would seem to be gone.
        Kind("batch/v1", "jobs", cluster_cache.JOBS, ours, needed=True),
        *(Kind(s.VERSION, s.PLURAL, s.KIND, ours) for s in shapes.of_operators(options.operators)),
        Kind("v1", "events", cluster_cache.EVENTS, fields=quiet),
        Kind("v1", "nodes", cluster_cache.NODES),
        Kind("v1", "pods", cluster_cache.OTHERS, names.others(options.namespace_prefix), _ALIVE),
        # of policies also those of others: each may open what ours close
        *(
            Kind(version, plural, kind, "" if kind == POLICY else ours)
            for version, plural, kind in WATCHED
        ),
    ]
    if options.queue:
        found.append(Kind("kueue.x-k8s.io/v1beta2", "workloads", cluster_cache.QUEUED))
    return tuple(found)


@dataclass
class Change:
    """What a thread tells: a full list, one change, or that it may not read or can't go on.

    A list comes page by page; ``listed`` ends it and has the keys of all its pages.
    """

    kind: str
    word: str  # page | listed | put | drop | look | refused | error
    obj: KubeObject = field(default_factory=dict)
    objects: list[KubeObject] = field(default_factory=list)
    keys: set[Key] = field(default_factory=set)
    error: DriverError | None = None


class Stream:
    """The thread of one kind."""

    def __init__(
        self,
        client: KubeClient,
        kind: Kind,
        out: queue.SimpleQueue[Change],
        stop: Callable[[], bool],
    ) -> None:
        self._client = client
        self._kind = kind
        self._out = out
        self._stop = stop
        self._version = ""
        self._failing_since: float | None = None
        self._denied_since: float | None = None
        self._response: BaseHTTPResponse | None = None
        self.lists = 0
        name = f"kube-{kind.plural}"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        pause = 0.1
        while not self._stop():
            begun = time.monotonic()
            try:
                if not self._version:
                    self._list()
                self._turn()
            except Expired:
                self._version = ""
                self._rest(pause)  # who forgets again at once is not asked for all without end
                pause = min(pause * 2, _FORGOT_S)
                continue
            except (Denied, NotYet) as error:
                if self._is_denied_for_long():
                    self._cannot(error)
                else:
                    self._rest(pause)
                continue
            except DriverError as error:
                # Since the first failure: a silent connection was good until it was given up
                now = time.monotonic()
                self._failing_since = self._failing_since or now
                if now - self._failing_since > PATIENCE_S:
                    self._out.put(Change(self._kind.kind, "error", error=error))
                    return
                self._rest(pause, silent_since=begun)
                pause = min(pause * 2, 1.0)
                continue
            except Exception as error:  # a bug here must end the watch, not freeze it
                log.exception("kubernetes.watch_failed", kind=self._kind.kind)
                trouble = Unreachable(f"The watch of {self._kind.plural} failed ({error}).")
                self._out.put(Change(self._kind.kind, "error", error=trouble))
                return
            pause = 0.1

    def _is_denied_for_long(self) -> bool:
        now = time.monotonic()
        self._denied_since = self._denied_since or now
        return now - self._denied_since >= BELIEVED_S

    def _list(self) -> None:
        self.lists += 1
        keys: set[Key] = set()
        version = ""
        pages = self._client.pages(
            self._kind.api_version, self._kind.plural, "", self._kind.selector, self._kind.fields
        )
        for objects, said in pages:
            keys.update(key_of(obj) for obj in objects)
            version = str(said.get("resourceVersion", ""))
            self._out.put(Change(self._kind.kind, "page", objects=objects))
        self._out.put(Change(self._kind.kind, "listed", keys=keys))
        self._version = version
        self._failing_since = self._denied_since = None

    def _turn(self) -> None:
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(TURN_S),
            "labelSelector": self._kind.selector,
            "fieldSelector": self._kind.fields,
        }
        path = path_of(self._kind.api_version, self._kind.plural)
        with self._client.stream(path, params, silence_s=TURN_S + SLACK_S) as response:
            if response.status != 200:  # noqa: PLR2004
                raise error_of(Answer("GET", response.status, response.data))
            self._response = response
            self._failing_since = self._denied_since = None
            for line in _lines(response.stream()):
                if self._stop():
                    return
                self._take(answers.event_of(line, self._kind.plural))

    def _take(self, event: KubeObject) -> None:
        word, obj = event.get("type"), event.get("object") or {}
        if word == "ERROR":
            raise error_of(Answer("GET", int(obj.get("code", 500)), json.dumps(obj).encode()))
        self._version = obj["metadata"]["resourceVersion"]
        if word in {"ADDED", "MODIFIED"}:
            self._out.put(Change(self._kind.kind, "put", obj))
        elif word == "DELETED":
            self._out.put(Change(self._kind.kind, "drop", obj))

    def _cannot(self, error: DriverError) -> None:
        """A kind that this portal may not read, or that the cluster does not have.

        What was seen of it stays: a refusal does not say that there is nothing.
        """
        if self._kind.needed:
            trouble = Unreachable(f"Berth may not read {self._kind.plural}: {error}")
            self._out.put(Change(self._kind.kind, "error", error=trouble))
        else:
            log.warning("kubernetes.kind_left_out", kind=self._kind.kind, error=str(error))
            self._out.put(Change(self._kind.kind, "refused"))
        self._version = ""
        self._rest(_DENIED_S)

    def _rest(self, seconds: float, *, silent_since: float | None = None) -> None:
        """``silent_since``: where nobody is answered, until somebody is, if that is sooner.

        It is when the turn that failed began: one that notices its end late does not rest at all.
        """
        until = time.monotonic() + seconds * random.uniform(0.5, 1.5)  # noqa: S311
        while not self._stop() and (left := until - time.monotonic()) > 0:
            if silent_since is not None and self._client.back_at > silent_since:
                return
            time.sleep(min(left, 0.2 if silent_since is None else 0.05))

    def cut(self) -> None:
        """Wake a thread that waits for the server."""
        with contextlib.suppress(ValueError, RuntimeError, OSError):  # it has ended by itself
            if self._response is not None:
                self._response.shutdown()


class Watch:
    """Fills a ``World`` and says when it changed. Used by one thread."""

    def __init__(
        self, client: KubeClient, options: KubernetesOptions, seen: World, check: Check
    ) -> None:
        self._client = client
        self._check = check
        self._kinds = kinds_of(options)
        self._world = seen
        self.streams: list[Stream] = []

    def lists(self) -> int:
        """How often something was listed, for tests and metrics."""
        return sum(stream.lists for stream in self.streams)

    def follow(
        self, stop: Callable[[], bool], seconds_left: Callable[[], float | None]
    ) -> Iterator[bool | None]:
        """Yield True when something may have changed (first: all is listed), False to say alive.

        None, before the first True: something arrives of lists that are long.

        ``seconds_left``: after how long of nothing new the caller wants to be asked again.
        """
        over = threading.Event()
        out: queue.SimpleQueue[Change] = queue.SimpleQueue()

        def is_over() -> bool:
            return over.is_set() or stop()

        def answered(pod_uid: str) -> None:
            self._world.answered(pod_uid)
            out.put(Change(cluster_cache.PODS, "look"))

        prober = Prober(self._check, answered)
        self._world.ask_by(prober)
        self.streams = [Stream(self._client, kind, out, is_over) for kind in self._kinds]
        for stream in self.streams:
            stream.thread.start()
        try:
            yield from self._fill(out, is_over)
            yield True
            while not is_over():
                yield self._gather(out, is_over, seconds_left())
        finally:
            over.set()
            prober.close()
            for stream in self.streams:
                stream.cut()

    def _fill(self, out: queue.SimpleQueue[Change], is_over: Callable[[], bool]) -> Iterator[None]:
        """Take the first lists. They may be as long as they are, while something arrives."""
        missing = {kind.kind for kind in self._kinds}
        until, told = time.monotonic() + _FIRST_S, time.monotonic()
        while missing and not is_over():
            try:
                change = out.get(timeout=0.2)
            except queue.Empty:
                if time.monotonic() > until:
                    message = f"The cluster did not list {', '.join(sorted(missing))}."
                    raise Unreachable(message) from None
                continue
            self._apply(change)
            until = time.monotonic() + _FIRST_S
            if change.word in {"listed", "refused"}:
                missing.discard(change.kind)
            if time.monotonic() - told > _TELL_S:
                told = time.monotonic()
                yield None

    def _gather(
        self, out: queue.SimpleQueue[Change], is_over: Callable[[], bool], at_most_s: float | None
    ) -> bool:
        """Take what comes, and all that came while the caller was busy."""
        until = time.monotonic() + (HEARTBEAT_S if at_most_s is None else at_most_s)
        while True:
            left = until - time.monotonic()
            try:
                self._apply(out.get(timeout=max(0.0, min(left, 0.5))))
                break
            except queue.Empty:
                if is_over() or left <= 0:
                    return False
        until = time.monotonic() + AT_ONCE_S
        with contextlib.suppress(queue.Empty):
            while time.monotonic() < until:
                self._apply(out.get_nowait())
        return True

    def _apply(self, change: Change) -> None:
        if change.error is not None:
            raise change.error
        if change.word == "page":
            for obj in change.objects:
                self._world.put(change.kind, obj)
        elif change.word == "listed":
            self._world.keep(change.kind, change.keys)
        elif change.word == "put":
            self._world.put(change.kind, change.obj)
        elif change.word == "drop":
            self._world.drop(change.kind, change.obj)


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines of a stream of pieces; a line may be large and come in many."""
    rest: list[bytes] = []
    for chunk in chunks:
        head, *more = chunk.split(b"\n")
        rest.append(head)
        for piece in more:
            line = b"".join(rest)
            if line:
                yield line
            rest = [piece]
