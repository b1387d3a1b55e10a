"""Every open stream, bounded in number, and cut when its access ends.

Access is asked again every ``RECHECK_S`` for all streams together (one question per person,
way of signing in and workspace or volume, however many streams there are), and at once when the
bus tells of it. A stream is told why through ``Stream.over``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

import prometheus_client as prometheus
import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.utils import translation
from django.utils.translation import gettext as _

from common import memory
from common.errors import BerthError
from common.metrics import REGISTRY
from common.streams import look
from gate.access import FILES, Demand, Target, VolumeTarget, target_of, volume_target
from gate.callers import Caller, later
from hubapi.activity import note_used
from runtime import bus

STREAMS_OPEN = prometheus.Gauge(
    "berth_gate_streams", "Streams open now.", ["kind"], registry=REGISTRY
)
STREAMS_OPENED = prometheus.Counter(
    "berth_gate_streams_opened_total", "Streams opened so far.", ["kind"], registry=REGISTRY
)
STREAMS_CUT = prometheus.Counter(
    "berth_gate_streams_cut_total",
    "Streams cut by the gate, by cause.",
    ["cause"],
    registry=REGISTRY,
)
SSH_REFUSED = prometheus.Counter(
    "berth_gate_ssh_refused_total", "SSH sign-ins refused, by cause.", ["cause"], registry=REGISTRY
)
RECHECK_S = 15.0
BATCH = 50
_SSH = "ssh"
# Kinds of streams by which somebody works inside; a log that is followed tells of no work.
_WORK = frozenset({"terminal", "exec", _SSH, "forward", "upload", "download"})
UNASKED_MAX = 2  # rounds in which the access of a stream may stay unknown
log = structlog.get_logger(__name__)

Key = tuple[Caller, str, Demand]
Held = Target | VolumeTarget


class TooMany(BerthError):  # noqa: N818 - named like its siblings in common.errors
    status = 429
    code = "too-many-streams"
    retry_after_s = 10


class Unasked(BerthError):  # noqa: N818 - named like its siblings in common.errors
    """Asking after one stream went wrong in a way that nobody foresaw."""

    status = 503
    code = "unasked"


@dataclass(eq=False)
class Stream:
    """One open stream. ``over`` is set from outside when it must end; ``why`` is for people."""

    kind: str
    caller: Caller
    target: Held
    demand: Demand
    over: asyncio.Event = field(default_factory=asyncio.Event)
    why: str = ""
    code: str = ""
    opened: float = field(default_factory=time.monotonic)
    moved: float = field(default_factory=time.monotonic)  # something came or went

    @property
    def key(self) -> Key:
        return (self.caller, self.target.short_id, self.demand)

    def end(self, code: str, why: str) -> None:
        if not self.over.is_set():
            self.code, self.why = code, why
            self.over.set()

    def touch(self) -> None:
        self.moved = time.monotonic()


class Guard:
    """One per process."""

    def __init__(self) -> None:
        self.streams: set[Stream] = set()
        self._of_user: Counter[int] = Counter()
        self._due = asyncio.Event()
        self._named: set[str] = set()  # workspaces the bus told of
        self._known: dict[str, str] = {}  # uid or short id of a workspace with streams → short id
        self._unasked: Counter[Key] = Counter()
        self._ebb = memory.Ebb()
        self.draining = False

    # --- opening -----------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def hold(
        self, kind: str, caller: Caller, target: Held, demand: Demand
    ) -> AsyncIterator[Stream]:
        """Count a stream in, and out at the end of the block; TooMany beyond the limits."""
        if self.draining:
            raise TooMany(_("The gate is being restarted; connect again."), code="draining")
        if self._of_user[caller.user_pk] >= settings.BERTH_GATE_STREAMS_PER_USER:
            raise TooMany(_("You have too many streams open at once; close some."))
        if len(self.streams) >= settings.BERTH_GATE_STREAMS:
            raise TooMany(_("The gate holds as many streams as it can; try again soon."))
        stream = Stream(kind, caller, target, demand)
        self.streams.add(stream)
        self._ebb.rise(len(self.streams))
        self._of_user[caller.user_pk] += 1
        self._known[target.uid] = self._known[target.short_id] = target.short_id
        STREAMS_OPEN.labels(kind).inc()
        STREAMS_OPENED.labels(kind).inc()
        try:
            yield stream
        finally:
            self.streams.discard(stream)
            self._of_user[caller.user_pk] -= 1
            if self._of_user[caller.user_pk] <= 0:
                del self._of_user[caller.user_pk]
            STREAMS_OPEN.labels(kind).dec()

    # --- ending ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Watch over all streams until cancelled."""
        ear = asyncio.create_task(self._hear())
        try:
            while True:
                named = await self._next()
                await self._recheck(named)
                if self._ebb.has_fallen(len(self.streams)):
                    await asyncio.to_thread(memory.give_back)
        finally:
            ear.cancel()

    async def _next(self) -> set[str] | None:
        """Wait; return the workspaces to look at, None for all."""
        try:
            async with asyncio.timeout(RECHECK_S):
                await self._due.wait()
        except TimeoutError:
            return None
        await asyncio.sleep(0.2)  # a change is often told several times
        self._due.clear()
        named, self._named = self._named, set()
        return named

    async def _hear(self) -> None:
        while True:
            try:
                async with bus.subscription(["*"]) as mine:
                    while True:
                        message = await mine.get(timeout_s=60)
                        if message is not None:
                            self._told(message)
            except Exception as error:  # noqa: BLE001 - the bus costs freshness only
                log.warning("gate.bus_failed", error=repr(error))
                await asyncio.sleep(2)

    def _told(self, message: dict[str, object]) -> None:
        if message == bus.RESYNC or (message.get("kind") == "cluster" and "changed" in message):
            self._named.update(s.target.short_id for s in self.streams)
        for key in ("id", "uid"):
            if short_id := self._known.get(str(message.get(key))):
                self._named.add(short_id)
        if self._named:
            self._due.set()

    async def _recheck(self, named: set[str] | None) -> None:
        keys = {s.key for s in self.streams if named is None or s.target.short_id in named}
        if named is None:
            self._end_idle()
            self._note_use()
            self._known = {}
            self._unasked = Counter({k: n for k, n in self._unasked.items() if k in keys})
            for stream in self.streams:
                short_id = stream.target.short_id
                self._known[stream.target.uid] = self._known[short_id] = short_id
        for batch in _batches(keys):
            try:
                answers = await look(lambda batch=batch: _answers(batch))  # type: ignore[misc]
            except Exception as error:  # noqa: BLE001 - the database is away: ask again soon
                log.warning("gate.recheck_failed", error=repr(error))
                return
            # one round without an answer is forgiven: nothing is known, so nothing is cut
            for key, answer in list(answers.items()):
                if not isinstance(answer, Unasked):
                    self._unasked.pop(key, None)
                    continue
                self._unasked[key] += 1
                if self._unasked[key] < UNASKED_MAX:
                    del answers[key]
                else:
                    del self._unasked[key]
            for stream in list(self.streams):
                self._apply(stream, answers.get(stream.key))

    def _apply(self, stream: Stream, answer: Held | BerthError | None) -> None:
        if isinstance(answer, BerthError):
            stream.end(answer.code, answer.message)
            STREAMS_CUT.labels("access").inc()
        elif answer is not None:
            before: Any = stream.target  # of the same kind: the key says which
            with translation.override(stream.caller.language):
                why = answer.end_of(before, stream.demand)
            if why:
                stream.end("stopped", why)

    def _note_use(self) -> None:
        """Whoever works by a terminal or SSH uses the workspace; its kernels do not know it.

        Of SSH an open session is enough: what runs in it may be silent.
        """
        lately = time.monotonic() - RECHECK_S
        used = {
            s.target.uid
            for s in self.streams
            if not isinstance(s.target, VolumeTarget)
            and (s.kind == _SSH or (s.kind in _WORK and s.moved >= lately))
        }
        if used:
            later("used", lambda: note_used(sorted(used)))

    def _end_idle(self) -> None:
        limit = time.monotonic() - settings.BERTH_GATE_IDLE_S
        for stream in self.streams:
            if stream.moved < limit:
                with translation.override(stream.caller.language):
                    stream.end("idle", _("Nothing happened for a long time."))
                STREAMS_CUT.labels("idle").inc()

    async def drain(self, seconds: float) -> None:
        """Refuse new streams, tell the open ones to go, wait for them a while."""
        self.draining = True
        for stream in list(self.streams):
            with translation.override(stream.caller.language):
                stream.end("draining", _("The gate is being restarted; connect again."))
        deadline = time.monotonic() + seconds
        while self.streams and time.monotonic() < deadline:  # noqa: ASYNC110 - once in its life
            await asyncio.sleep(0.05)


def _batches(keys: Iterable[Key]) -> Iterable[list[Key]]:
    rows = list(keys)
    for at in range(0, len(rows), BATCH):
        yield rows[at : at + BATCH]


def _answers(keys: Iterable[Key]) -> dict[Key, Held | BerthError]:
    found: dict[Key, Held | BerthError] = {}
    for key in keys:
        with translation.override(key[0].language):
            found[key] = _answer(key)
    return found


def _answer(key: Key) -> Held | BerthError:
    try:
        return volume_target(*key) if key[2] in FILES else target_of(*key)
    except BerthError as error:
        return error
    except (OperationalError, InterfaceError):
        raise  # the database is away, for all of them
    except Exception:
        log.exception("gate.unasked", workspace=key[1])
        return Unasked(_("Whether you still have access could not be asked."))
