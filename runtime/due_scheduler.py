"""Finding due rows in the database: the net under every lost message, inside the worker.

One loop per installation by Lease. It sleeps until the next row is due (at most ``IDLE_S``),
so an idle worker costs a few small queries every few seconds.
"""

import math
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import chain, zip_longest
from typing import Any

import structlog
from django.db import DatabaseError, close_old_connections, connection
from django.db.models import F, Min, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from common.clock import now
from runtime import engine, leases, reconcilers

log = structlog.get_logger(__name__)

IDLE_S = 5.0
SWEEP_LEASE_S = 20.0
BUSY_S = 0.25  # between two looks while rows are due
# A machine that is busy makes looks slow; they take a twentieth of its time at most.
BUSY_MAX_S = 1.0
_LOOKING = 20
# Rows that wait for a thread. A look brings more rows than both lanes hold, so it always finds
# some that are not waiting already.
WOKEN = 256
SWEPT = 128
LIMIT = 500
THREADS = 8
DRAIN_S = 12.0
# One interpreter and its cores are shared: who was woken is not to be one of eight on them. So
# the sweep keeps to one row at a time while others are woken, and a moment longer: a launch is
# woken again when its program is there. A row that takes longer waits for something elsewhere
# (a silent cluster), which takes nothing from the others.
BESIDE_WOKEN = 1
MOMENT_S = 1.0

Item = tuple[str, int]


def due_items(*, limit: int = LIMIT) -> list[Item]:
    """Return due, free rows of all kinds: each project's longest overdue, then its next, …

    However many rows a project has, one of another is not farther back than there are projects.
    """
    at = now()
    queues: dict[Any, list[tuple[datetime, Item]]] = defaultdict(list)
    for table, kind in reconcilers.tables():
        column = "project_id" if _has_project(table.model) else ""
        rows = table.filter(
            Q(lease_until__isnull=True) | Q(lease_until__lt=at),
            deleted_at__isnull=True,
            next_reconcile_at__lte=at,
        )
        for pk, due, project, own in _picked(rows, column, "" if kind else "kind", limit):
            queues[project if column else ""].append((due, (kind or own, pk)))
    turns = zip_longest(*sorted(sorted(queue) for queue in queues.values()))
    return [found[1] for found in chain.from_iterable(turns) if found is not None][:limit]


def _picked(
    rows: QuerySet[Any], column: str, kind: str, limit: int
) -> list[tuple[int, datetime, Any, Any]]:
    """Return at most ``limit`` of ``rows``. Numbering all of them is for when not all fit."""
    columns = ("pk", "next_reconcile_at", column or "pk", kind or "pk")
    first = list(rows.order_by("next_reconcile_at").values_list(*columns)[: limit + 1])
    if len(first) <= limit or not column:
        return first[:limit]
    turn = Window(RowNumber(), partition_by=F(column), order_by="next_reconcile_at")
    fair = rows.annotate(turn=turn).order_by("turn", "next_reconcile_at")
    return list(fair.values_list(*columns)[:limit])


def _has_project(model: Any) -> bool:
    return any(f.name == "project" and f.concrete for f in model._meta.get_fields())  # noqa: SLF001


def seconds_to_next(longest: float = IDLE_S) -> float:
    """Return how long nothing is due, at most ``longest``."""
    at = now()
    soonest = longest
    for table, _kind in reconcilers.tables():
        rows = table.filter(deleted_at__isnull=True)
        first = rows.aggregate(at=Min("next_reconcile_at"))["at"]
        if first is not None:
            soonest = min(soonest, (first - at).total_seconds())
    return max(0.0, soonest)


def sweep_once() -> int:
    """Reconcile everything that is due now, in this thread. Returns the number of rows."""
    items = due_items()
    for kind, pk in items:
        engine.reconcile_one(kind, pk)
    return len(items)


def free_dead_leases() -> int:
    """Free rows that are held by workers that are no more. Returns how many."""
    living = leases.alive()
    freed = 0
    for table, _kind in reconcilers.tables():
        rows = table.filter(lease_until__gt=now())
        for pk, token in rows.values_list("pk", "lease_token"):
            if token is None or leases.owner_of(token) in living:
                continue
            freed += rows.filter(pk=pk, lease_token=token).update(
                lease_until=None, next_reconcile_at=now()
            )
    if freed:
        log.warning("engine.took_over", rows=freed)
    return freed


class Pool:
    """Reconciles rows in a few threads; a row is never twice in it at the same time.

    Two lanes, both bounded: rows that somebody woke go first, rows that the sweep found have
    each fourth turn, one at a time. So nobody waits behind more rows than the lanes hold, or for
    what they take of the machine (E17).
    """

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="engine")
        self._lock = threading.Lock()
        self._woken: deque[Item] = deque()
        self._swept: deque[Item] = deque()
        self._turn = self._busy = 0
        self._sweeping: dict[Item, float] = {}  # since when
        self._woken_at = -math.inf
        self._inside: set[Item] = set()
        self._again: set[Item] = set()
        self._closing = self._roused = False
        self.on_full: Callable[[], None] = lambda: None
        self.gives_way: Callable[[], bool] = lambda: False  # to what matters more than the sweep

    def submit(self, kind: str, pk: int) -> None:
        """Look at the row soon. If it is being looked at now, look again afterwards.

        When too many were woken, it is left to the sweep, which is fair: the row is due.
        """
        item = (kind, pk)
        with self._lock:
            if self._closing:
                return
            if item in self._inside:
                self._again.add(item)
                return
            if len(self._woken) < WOKEN:
                self._enter(item, self._woken)
                return
        self.on_full()

    def offer(self, kind: str, pk: int) -> bool:
        """Look at the row in its turn. False when enough rows of the sweep wait already."""
        item = (kind, pk)
        with self._lock:
            if item not in self._inside:
                if self._closing or len(self._swept) >= SWEPT:
                    self._rouse()
                    return False
                self._enter(item, self._swept)
            self._rouse()
            return True

    def __len__(self) -> int:
        return len(self._inside)

    def _enter(self, item: Item, lane: deque[Item]) -> None:
        self._inside.add(item)
        lane.append(item)
        if lane is self._woken:
            self._woken_at = time.monotonic()
        self._pool.submit(self._work)

    def _next(self) -> Item | None:
        """Return a row, now counted as worked on; it goes out by ``_done``."""
        with self._lock:
            self._roused = False
            lanes = [self._woken] if self._woken else []
            if self._swept and self._may_sweep():
                lanes.append(self._swept)
            if self._closing or not lanes:
                return None  # another thread took it, or it has to wait
            self._turn += 1
            lane = lanes[0 if self._turn % 4 else -1]
            item = lane.popleft()
            self._busy += 1
            if lane is self._swept:
                self._sweeping[item] = time.monotonic()
            return item

    def _may_sweep(self) -> bool:
        at = time.monotonic()
        woken = self._woken or self._busy > len(self._sweeping) or self.gives_way()
        if not woken and at - self._woken_at > MOMENT_S:
            return True
        return sum(at - since < MOMENT_S for since in self._sweeping.values()) < BESIDE_WOKEN

    def _rouse(self) -> None:
        """Rows of the sweep wait and threads sleep: they may have been held back until now."""
        asleep = self._busy < self._threads and not self._roused
        if self._swept and asleep and not self._closing:
            self._roused = True
            self._pool.submit(self._work)

    def _work(self) -> None:
        """Take one row after another on one connection, and give that back at the end."""
        try:
            while (item := self._next()) is not None:
                try:
                    engine.reconcile_one(*item)
                except DatabaseError as error:
                    log.warning("engine.database", error=repr(error))
                    close_old_connections()
                except Exception:
                    log.exception("engine.unexpected", item=item)
                    close_old_connections()
                finally:
                    self._done(item)
        finally:
            close_old_connections()

    def _done(self, item: Item) -> None:
        with self._lock:
            self._inside.discard(item)
            self._busy -= 1
            if self._sweeping.pop(item, None) is None:
                self._woken_at = time.monotonic()
            self._rouse()
            if item in self._again and not self._closing:
                self._enter(item, self._woken)
            self._again.discard(item)

    def drain(self, timeout_s: float = DRAIN_S) -> bool:
        """Take nothing more, wait for what runs. True when all of it ended in time."""
        with self._lock:
            self._closing = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        end = time.monotonic() + timeout_s
        threads = deque(getattr(self._pool, "_threads", ()))
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(t.is_alive() for t in threads)


class Sweeper:
    """The loop. ``wake`` ends its sleep."""

    def __init__(self, offer: Callable[[str, int], bool]) -> None:
        self._offer = offer
        self._stop = threading.Event()
        self._early = threading.Event()
        self._held: leases.Held | None = None
        self._beaten = self._renewed = 0.0
        self._taken_over = 0.0
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._early.set()

    def stop(self) -> None:
        self._stop.set()
        self._early.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                close_old_connections()
                pause = self.once()
            except DatabaseError as error:
                log.warning("sweep.database", error=repr(error))
                pause = 2.0
            except Exception:
                log.exception("sweep.failed")
                pause = 2.0
            finally:
                close_old_connections()  # asleep it needs none
            self._stop.wait(min(pause, BUSY_S))
            if pause > BUSY_S:
                self._early.wait(pause - BUSY_S)
            self._early.clear()
        self._leave()

    def once(self) -> float:
        """One look; return how long to sleep."""
        at = time.monotonic()
        if at - self._beaten > leases.BEAT_S:
            leases.beat()
            self._beaten = at
        if not self._lead():
            return IDLE_S
        if at - self._taken_over > IDLE_S - 0.5:
            free_dead_leases()
            self._taken_over = at
        begun = time.monotonic()
        items = due_items()
        for kind, pk in items:
            if not self._offer(kind, pk):
                break
        if not items:
            return max(seconds_to_next(), 0.05)
        # What was just handed over is due until its thread has claimed it: no busy loop.
        return min(max(BUSY_S, _LOOKING * (time.monotonic() - begun)), BUSY_MAX_S)

    def _lead(self) -> bool:
        at = time.monotonic()
        if self._held is not None and at - self._renewed < SWEEP_LEASE_S / 4:
            return True
        self._renewed = at
        if self._held is not None and self._held.renew():
            return True
        self._held = leases.acquire("sweep", ttl_s=SWEEP_LEASE_S)
        return self._held is not None

    def _leave(self) -> None:
        try:
            if self._held is not None:
                self._held.release()
        except DatabaseError as error:
            log.warning("sweep.leave_failed", error=repr(error))
        finally:
            connection.close()
