"""Things outside without a live row, and rows that end without their thing.

Things are seen twice, with a grace between, then removed. Another Berth's work looks like an
orphan, and so does everything that is newer than a backup. So only what carries the mark of this
very installation goes, and nothing while the rows may be older than the world
(``Installation.held_why``). Volumes are never touched: they are data.

The other way round (a row without its thing) is the reconciler's: it reports ``vanished``.
"""

import copy
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import structlog
from django.core.cache import cache

from common.clock import now
from common.hooks import Hook
from common.ids import is_uid
from events.services import record
from runtime import bus, installation, reconcilers
from runtime.capabilities.experiments import EXPERIMENT, SupportsExperiments
from runtime.capabilities.workloads import SupportsAdoption
from runtime.models import Installation, ObservedWorkload, Route
from runtime.ports import admission, cluster_provider
from runtime.protocol import (
    Denied,
    Desired,
    Driver,
    DriverError,
    InvalidSpec,
    NotYet,
    Observation,
    Phase,
)
from runtime.reasons import Reason
from runtime.reconcilers import Outcome, Reconciler, Transition

log = structlog.get_logger(__name__)

SHOWN = 200  # of what has no row
GRACE_S = 90.0
_MEMORY_S = 3600
_TOLD_S = 24 * 3600
_FEW = 100

# Which of these uids a row stands for that is not the engine's.
stands_for: Hook[[set[str]], set[str]] = Hook()


def collect_orphans() -> int:
    """Return how many orphans were removed on all clusters."""
    removed, whole = 0, True
    unknown: list[dict[str, str]] = []
    own = installation.awake()
    if own is None:
        return 0  # nothing can be told from another's
    for key in cluster_provider().keys():  # noqa: SIM118 - a method of ours, not a dict
        try:
            driver = cluster_provider().driver_for(key)
            searches = _experiments(driver)
            whole = whole and searches is not None
            listed = [*driver.list_owned(), *(searches or ())]
            owned = {o.uid: o for o in listed if is_uid(o.uid)}
            lost = set(owned) - live_uids(set(owned))
            _adopt(driver, [o for uid, o in owned.items() if uid not in lost])
            ours = {uid for uid in lost if owned[uid].installation == str(own.uid)}
            left = lost if own.held_why else lost - ours
            unknown += [_unknown(key, owned[uid], uid in ours) for uid in sorted(left)]
            for uid in _of_rows(set(owned), deleted_at__isnull=True, reason=Reason.QUARANTINED):
                if _seen_twice(key, uid):
                    _end(driver, owned[uid])
            removed += 0 if own.held_why else _collect(key, driver, owned, ours)
        except DriverError as error:
            whole = False
            log.info("orphans.cluster_skipped", cluster=key, error=str(error))
    # Write down what was seen without a row. Nothing anywhere ends a hold for long silence.
    if own.held_why == Installation.Hold.QUIET and whole and not unknown:
        Installation.objects.update(held_why="", held_since=None, unknown=[])
    elif own.unknown != unknown[:SHOWN]:
        Installation.objects.update(unknown=unknown[:SHOWN])
    # Our own notes about workloads that are no more: routes and observations
    old = now() - timedelta(seconds=GRACE_S)
    for rows in (
        Route.objects.filter(created_at__lt=old),
        ObservedWorkload.objects.filter(seen_at__lt=old),
    ):
        uids = {str(u) for u in rows.values_list("uid", flat=True)}
        gone = uids - live_uids(uids)
        if gone:
            rows.filter(uid__in=gone).delete()
    return removed


def _unknown(key: str, found: Observation, is_ours: bool) -> dict[str, str]:  # noqa: FBT001
    whose = "own" if is_ours else found.installation
    return {
        "cluster": key,
        "uid": found.uid,
        "kind": found.kind,
        "seen": str(found.seen),
        "whose": whose,
    }


def _adopt(driver: Driver, known: list[Observation]) -> None:
    """Mark what has a row and was made before there were marks."""
    if isinstance(driver, SupportsAdoption):
        for found in [o for o in known if not o.installation][:_FEW]:
            driver.adopt(found.uid)


def _experiments(driver: Driver) -> Iterable[Observation] | None:
    """What chooses values of searches; None where it can't be told now, and the rest can.

    A cluster whose rights are older may not tell of it at all.
    """
    try:
        return driver.list_experiments() if isinstance(driver, SupportsExperiments) else ()
    except DriverError as error:
        log.info("orphans.experiments_skipped", error=str(error))
        return () if isinstance(error, Denied) else None


def live_uids(uids: set[str]) -> set[str]:
    """Return those of ``uids`` that belong to a row that still stands for something."""
    return _of_rows(uids, deleted_at__isnull=True).union(*stands_for(uids))


def _of_rows(uids: set[str], **conditions: object) -> set[str]:
    """Many are compared here: a statement with thousands of uids takes this process far longer to
    write than all live rows take to read, and meanwhile the engine's threads wait.
    """
    if not uids:
        return set()
    if len(uids) <= _FEW:
        conditions["uid__in"] = uids
    found: set[str] = set()
    for table, _kind in reconcilers.tables():
        rows = table.filter(**conditions)
        found |= {str(uid) for uid in rows.values_list("uid", flat=True)}
    return found & uids


def _collect(key: str, driver: Driver, owned: dict[str, Observation], lost: set[str]) -> int:
    begun = dict(cache.get(f"orphans-begun:{key}") or {})
    begun.update({uid: _facts(owned[uid]) for uid in lost if _seen_twice(key, uid)})
    for uid in live_uids(set(begun)):
        del begun[uid]  # its row came back (a restore)
    done = [uid for uid, facts in sorted(begun.items()) if _remove(key, driver, uid, facts)]
    left = {uid: facts for uid, facts in begun.items() if uid not in done}
    cache.set(f"orphans-begun:{key}", left, _MEMORY_S)
    return len(done)


def _facts(found: Observation) -> dict[str, str]:
    return {"kind": found.kind, "seen": str(found.seen)}


def _end(driver: Driver, found: Observation) -> None:
    try:
        driver.stop(found.uid, grace_s=10)
    except (NotYet, Denied):
        return  # the next pass tries again, and gives its place back
    admission().release(found.uid)


def _seen_twice(key: str, uid: str) -> bool:
    name = f"orphan:{key}:{uid}"
    first = cache.get(name)
    if first is None:
        cache.set(name, now(), _MEMORY_S)
        return False
    return bool(now() - first >= timedelta(seconds=GRACE_S))


def _remove(key: str, driver: Driver, uid: str, facts: dict[str, str]) -> bool:
    try:
        if facts["kind"] == EXPERIMENT and isinstance(driver, SupportsExperiments):
            driver.remove_experiment(uid)
        else:
            driver.remove(uid)
    except NotYet:
        return False  # under way; the next pass finishes it
    except (Denied, InvalidSpec) as error:  # of this one; others are not held up
        log.warning("orphans.not_removed", cluster=key, uid=uid, error=str(error))
        return False
    cache.delete(f"orphan:{key}:{uid}")
    admission().release(uid)
    # Told once for each. What somebody else labelled with a uid of nobody is not ours to
    # remove, and is listed again each time.
    name = f"orphan-told:{key}:{uid}:{facts['kind']}"
    is_news = cache.get(name) is None
    cache.set(name, 1, _TOLD_S)
    if not is_news:
        log.info("orphans.removed_again", cluster=key, uid=uid, kind=facts["kind"])
        return True
    record(
        actor=None,
        verb="orphan.removed",
        target_kind=facts["kind"] or "workload",
        target_name=uid,
        # of what only carries the uid nothing was made here, and nothing is removed
        message="No row stands for it. What Berth made of it is removed; what others made stays.",
        data={"cluster": key, "seen": facts["seen"]},
    )
    log.warning("orphans.removed", cluster=key, uid=uid, kind=facts["kind"])
    return True


def let_go(reconciler: Reconciler, row: Any, message: str) -> None:
    """End a row that the caller's transaction has locked; nothing outside is touched.

    Its keys are revoked and its ways closed as at a removal, and listeners hear of it. A worker
    that is at the row finds its lease gone and drops what it has; none may take it again.
    """
    if before_stop := getattr(reconciler, "before_stop", None):
        before_stop(row)
    Route.objects.filter(uid=row.uid).delete()  # the keeper of routes closes what is open
    ObservedWorkload.objects.filter(uid=row.uid).delete()
    if after_remove := getattr(reconciler, "after_remove", None):
        after_remove(row)
    before, at = copy.copy(row), now()
    gone: dict[str, Any] = {
        "phase": Phase.DELETED,
        "desired": Desired.ABSENT,
        "reason": "",
        "message": message,
    }
    gone |= {"phase_since": at, "updated_at": at, "deleted_at": at, "next_reconcile_at": None}
    gone |= {"lease_token": None, "lease_until": None}
    reconcilers.rows_of(row.KIND).filter(pk=row.pk).update(**gone)
    for name, value in gone.items():
        setattr(row, name, value)
    outcome = Outcome(Phase.DELETED, message=message, gone=True)
    told = Transition(row, Phase(before.phase), Phase.DELETED, outcome, gone=True, seen=before)
    for listener in reconcilers.listeners():
        listener(told)
    bus.publish(reconcilers.topics_of(reconciler, row), {"kind": row.KIND, "uid": str(row.uid)})
