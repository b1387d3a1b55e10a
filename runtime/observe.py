"""What was seen: the table that ``watch`` keeps and the engine reads.

A version fences each workload: what is older than what is known never overwrites it. The watch
itself holds a ``Lease`` per cluster, so that one process writes.
"""

import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import structlog
from django.db import DatabaseError, close_old_connections, connection, transaction

from common.clock import now
from common.database import update_returning
from common.ids import is_uid
from runtime import reachability, reconcilers
from runtime.capabilities.clusters import SupportsNodes, SupportsWatch
from runtime.leases import Held, acquire
from runtime.models import Lease, ObservedWorkload
from runtime.ports import cluster_provider
from runtime.protocol import (
    NOT_IN_GIST,
    Observation,
    Phase,
    Seen,
    Unreachable,
    observation_read,
    replicas_told,
)
from runtime.reasons import Reason

log = structlog.get_logger(__name__)

WATCH_LEASE_S = 45.0
RENEW_S = 10.0
RETRY_MAX_S = 1.0  # a cluster that comes back is believed this soon
SILENT_AFTER = 2  # tries in a row: one cut connection is no news to thousands of pages
DEAD_AFTER_S = 60.0  # a driver sends at least a heartbeat every 30 s
_WATCHED_CACHE_S = 1.0
_SETTLED = (Phase.STOPPED, Phase.FAILED, Phase.DELETED)

Wake = Callable[[str, int], None]
_watched: dict[str, tuple[float, bool]] = {}  # cluster → known until when, and what


def is_watched(cluster_key: str) -> bool:
    """Whether somebody watches the cluster now, so that changes wake the engine."""
    until, known = _watched.get(cluster_key, (0.0, False))
    if time.monotonic() < until:
        return known
    name = f"watch:{cluster_key}"
    known = Lease.objects.filter(name=name, until__gt=now()).exists()
    _watched[cluster_key] = (time.monotonic() + _WATCHED_CACHE_S, known)
    return known


def last_contact(cluster_key: str) -> datetime | None:
    """Return when a watch last heard of the cluster; what lived there then was seen alive."""
    rows = Lease.objects.filter(name=f"watch:{cluster_key}")
    return rows.values_list("worked_at", flat=True).first()


def unseen_since(row: Any) -> datetime | None:
    """Return when a row that is gone was last seen alive; None: it goes before somebody's eyes."""
    if is_watched(row.cluster_key):
        return None
    known = ObservedWorkload.objects.filter(cluster_key=row.cluster_key, uid=row.uid).first()
    if known is not None and known.seen == Seen.MISSING and known.data.get("ended_at"):
        return datetime.fromtimestamp(known.data["ended_at"], tz=UTC)  # a watch since found it gone
    return max(filter(None, (last_contact(row.cluster_key), row.last_observed_at)), default=None)


def cached(row: Any) -> Observation | None:
    """Return what the watch knows of the row, None when nobody watches or it knows nothing."""
    if not is_watched(row.cluster_key):
        return None
    seen = ObservedWorkload.objects.filter(cluster_key=row.cluster_key, uid=row.uid).first()
    return None if seen is None else observation_of(seen)


def observation_of(row: ObservedWorkload) -> Observation:
    return observation_read({**row.data, "uid": str(row.uid), "seen": row.seen})


def store(
    cluster_key: str,
    batch: Iterable[Observation],
    *,
    full: bool,
    unseen_since: datetime | None = None,
) -> list[tuple[str, int]]:
    """Write a batch; return (kind, pk) of the rows that are due because of it.

    ``full``: the batch is everything there is, so what is not in it is missing, and was last seen
    alive at ``unseen_since``. News that a row's kind does not act on is written and wakes nobody.
    """
    ended_at = unseen_since.timestamp() if unseen_since else None
    seen = {o.uid: o for o in batch if is_uid(o.uid)}  # a label may say anything
    with transaction.atomic():
        known = {
            str(r.uid): r
            for r in _known(cluster_key, None if full else list(seen)).select_for_update()
        }
        changed = [o for o in seen.values() if _is_news(known.get(o.uid), o, full=full)]
        if full:
            changed += [
                Observation(
                    uid=uid, seen=Seen.MISSING, version=r.version, kind=r.kind, ended_at=ended_at
                )
                for uid, r in known.items()
                if uid not in seen and r.seen != Seen.MISSING
            ]
        if full:
            reachability.take_back(cluster_key, known, {o.uid for o in changed})
        acted_on = [o for o in changed if _is_acted_on(known.get(o.uid), o)]
        by_kind: dict[str, list[str]] = {}
        for o in acted_on:
            row = known.get(o.uid)
            by_kind.setdefault(o.kind or (row.kind if row else ""), []).append(o.uid)
        due = []
        for kind, uids in by_kind.items():
            if kind not in reconcilers.registered():
                continue
            rows = reconcilers.rows_of(kind).filter(
                uid__in=uids, cluster_key=cluster_key, deleted_at__isnull=True
            )
            marked = update_returning(rows, {"next_reconcile_at": now()}, ("pk",))
            due += [(kind, pk) for (pk,) in marked]
        _write(cluster_key, changed, known)
        if full:
            due += _mark_unseen(cluster_key, seen.keys())
    return due


def _known(cluster_key: str, uids: list[str] | None) -> Any:
    rows = ObservedWorkload.objects.filter(cluster_key=cluster_key)
    return rows if uids is None else rows.filter(uid__in=uids)


def _is_news(known: ObservedWorkload | None, found: Observation, *, full: bool) -> bool:
    if known is None:
        return True
    if full:  # a driver that lost its state counts from the start again
        return found.version < known.version or not _says_the_same(known, found)
    return found.version > known.version


def _says_the_same(known: ObservedWorkload, found: Observation) -> bool:
    """A new watch numbers everything anew: ten thousand quiet workloads are no news then."""
    return {**known.data, "version": 0} == {**_data(found), "version": 0}


def _is_acted_on(known: ObservedWorkload | None, found: Observation) -> bool:
    """Whether a step would find something else than at the news before.

    A pod that is replaced comes in five pieces; what changes the row are two of them.
    """
    if known is None:
        return True
    reconciler = reconcilers.registered().get(found.kind or known.kind)
    if getattr(reconciler, "reads_detail", True):
        return True
    pods = known.data.get("detail", {}).get("pod_uid"), found.detail.get("pod_uid")
    if all(pods) and pods[0] != pods[1]:
        return True  # nothing was read between two pods
    quiet = NOT_IN_GIST
    if getattr(reconciler, "reads_replicas", False):
        quiet = quiet - {"replicas"}
    return any(known.data.get(k) != v for k, v in _data(found).items() if k not in quiet)


def _data(found: Observation) -> dict[str, Any]:
    told = {**vars(found), "seen": str(found.seen), "detail": dict(found.detail)}
    replicas = told.pop("replicas")
    return {**told, "replicas": replicas_told(replicas)} if replicas else told


def _write(
    cluster_key: str, changed: list[Observation], known: dict[str, ObservedWorkload]
) -> None:
    at = now()
    made = []
    for o in changed:
        row = known.get(o.uid) or ObservedWorkload(cluster_key=cluster_key, uid=o.uid)
        row.kind = o.kind or row.kind
        row.seen, row.launch, row.version, row.seen_at = o.seen, o.launch, o.version, at
        row.data = _data(o)
        made.append(row)
    ObservedWorkload.objects.bulk_create(
        made,
        update_conflicts=True,
        unique_fields=["cluster_key", "uid"],
        update_fields=["kind", "seen", "launch", "version", "seen_at", "data"],
    )


def _mark_unseen(cluster_key: str, seen: Iterable[str]) -> list[tuple[str, int]]:
    """Rows that think they live but are not in a full list: a restore, a lost machine."""
    there = set(seen)
    due = []
    for kind, reconciler in reconcilers.registered().items():
        if not getattr(reconciler, "observes", False):
            continue
        rows = (
            reconcilers.rows_of(kind)
            .filter(cluster_key=cluster_key, deleted_at__isnull=True)
            .exclude(phase__in=_SETTLED)
        )
        pks = [pk for pk, uid in rows.values_list("pk", "uid") if str(uid) not in there]
        # Who was told that nothing answers waits for its back-off; now something does.
        waiting = rows.filter(reason=Reason.UNREACHABLE).exclude(pk__in=pks)
        pks += waiting.values_list("pk", flat=True)
        if pks:
            rows.filter(pk__in=pks).update(next_reconcile_at=now())
        due += [(kind, pk) for pk in pks]
    return due


class Watcher:
    """A thread that keeps the table of one cluster fresh and wakes what changed."""

    def __init__(self, cluster_key: str, wake: Wake) -> None:
        self.cluster_key = cluster_key
        self._wake = wake
        self._stop = threading.Event()
        self._held: Held | None = None
        self._thread: threading.Thread | None = None
        self._unanswered = 0  # tries in a row
        self.is_filling = False  # a long first list arrives
        self.last_beat = time.monotonic()

    def start(self) -> None:
        name = f"watch-{self.cluster_key}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.last_beat = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._held is not None:
            self._held.release()

    def join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    @property
    def is_dead(self) -> bool:
        """Silent for too long, or its thread ended: replace it."""
        if self._thread is not None and not self._thread.is_alive():
            return not self._stop.is_set()
        return self._held is not None and time.monotonic() - self.last_beat > DEAD_AFTER_S

    def _run(self) -> None:
        pause = 0.5
        try:
            while not self._stop.wait(0):
                pause = self._once(pause)
                self._stop.wait(pause)
        finally:
            connection.close()

    def _once(self, pause: float) -> float:
        """Watch until it breaks; return how long to rest before the next try."""
        self.last_beat = time.monotonic()  # one that tries again is not dead
        try:
            close_old_connections()
            driver = cluster_provider().driver_for(self.cluster_key)
            if not isinstance(driver, SupportsWatch):
                return 60.0
            self._held = acquire(f"watch:{self.cluster_key}", ttl_s=WATCH_LEASE_S)
            if self._held is None:
                return 5.0
            self._follow(driver, self._held)
        except Unreachable as error:
            log.warning("watch.unreachable", cluster=self.cluster_key, error=str(error))
            self._unanswered += 1
            if self._unanswered >= SILENT_AFTER:
                try:
                    if self._held is not None and self._held.is_mine():
                        reachability.tell_silence(self.cluster_key, str(error))
                except DatabaseError as problem:  # it is told after the next try
                    log.warning("watch.untold", cluster=self.cluster_key, error=repr(problem))
        except Exception:
            log.exception("watch.failed", cluster=self.cluster_key)
        else:
            return 0.2
        finally:
            self._release()
            close_old_connections()
        return min(pause * 2, RETRY_MAX_S)

    def _release(self) -> None:
        held, self._held = self._held, None
        _watched.pop(self.cluster_key, None)
        if held is not None:
            try:
                held.release()
            except Exception:  # noqa: BLE001 - the lease ends by itself
                log.warning("watch.release_failed", cluster=self.cluster_key)

    def _follow(self, driver: SupportsWatch, held: Held) -> None:
        first, begun = True, time.monotonic()
        renewed = begun
        unseen_since = last_contact(self.cluster_key)
        self._watches_here(renewed)
        try:
            for batch in driver.watch(stop=self._stop.is_set):
                self.last_beat = time.monotonic()
                self._unanswered = 0
                if self._stop.is_set():
                    return
                self.is_filling = batch is None
                if batch is not None:
                    self._take(driver, batch, first=first, unseen_since=unseen_since)
                    if first:
                        log.info(
                            "watch.begun",
                            cluster=self.cluster_key,
                            workloads=len(batch),
                            listed_s=round(self.last_beat - begun, 1),
                            stored_s=round(time.monotonic() - self.last_beat, 1),
                        )
                        renewed = 0.0  # what is there was seen just now
                    first = False
                if time.monotonic() - renewed > RENEW_S:
                    renewed = time.monotonic()
                    if not held.renew(worked=not first):
                        log.warning("watch.lost_lease", cluster=self.cluster_key)
                        return
                    self._watches_here(renewed)
                if not self._is_current(driver):
                    return
                close_old_connections()  # the next news may be long in coming
        finally:
            self.is_filling = False

    def _is_current(self, driver: SupportsWatch) -> bool:
        """False once an operator changed the cluster: another driver may follow other things."""
        try:
            return cluster_provider().driver_for(self.cluster_key) is driver
        except Unreachable:  # switched off or gone: whoever started this ends it
            return True

    def _take(
        self,
        driver: SupportsWatch,
        batch: list[Observation],
        *,
        first: bool,
        unseen_since: datetime | None,
    ) -> None:
        if first or batch:
            due = store(self.cluster_key, batch, full=first, unseen_since=unseen_since)
            for kind, pk in due:
                self._wake(kind, pk)
        if isinstance(driver, SupportsNodes) and (changes := driver.node_changes()) is not None:
            cluster_provider().nodes_store(self.cluster_key, changes)

    def _watches_here(self, since: float) -> None:
        """For as long as its own lease lasts this process need not ask."""
        _watched[self.cluster_key] = (since + WATCH_LEASE_S, True)
