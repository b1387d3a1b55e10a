"""A cluster falls silent, or answers again: rows that run are told so, many at once.

A step for each of thousands of rows would keep the changed ones waiting. When it answers, only rows
that run on exactly as they did are answered here; all others get their step.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet

from common.clock import now
from runtime import bus, reconcilers
from runtime.models import ObservedWorkload
from runtime.protocol import Desired, Phase, Seen
from runtime.reasons import Reason
from runtime.reconcilers import WorkloadKind

_TOPICS = 100  # of one message, whose size is bounded


def tell_silence(cluster_key: str, message: str) -> None:
    """Say of what runs there that it is shown as it was last seen.

    Nobody looks at it meanwhile: what is watched is looked at when there is news.
    """
    for reconciler in reconcilers.registered().values():
        if isinstance(reconciler, WorkloadKind):
            _tell_silence(reconciler, cluster_key, message)


@transaction.atomic
def _tell_silence(reconciler: Any, cluster_key: str, message: str) -> None:
    running = _running(reconciler, cluster_key, reason="")
    rows = list(_slim(reconciler, running))
    told = _running_in(reconcilers.rows_of(reconciler.kind), cluster_key, reason="")
    told.filter(pk__in=[row.pk for row in rows]).update(
        reason=Reason.UNREACHABLE, message=message, updated_at=now()
    )
    _publish(reconciler, rows)


def take_back(
    cluster_key: str, known: Mapping[str, ObservedWorkload], changed: Collection[str]
) -> None:
    """Called in the transaction of a full list. When a row is looked at next stays as it was."""
    for reconciler in reconcilers.registered().values():
        if isinstance(reconciler, WorkloadKind):
            _take_back(reconciler, cluster_key, known, changed)


def _take_back(
    reconciler: Any,
    cluster_key: str,
    known: Mapping[str, ObservedWorkload],
    changed: Collection[str],
) -> None:
    rows = _running(reconciler, cluster_key, reason=Reason.UNREACHABLE)
    same = [
        row
        for row in _slim(reconciler, rows)
        if str(row.uid) not in changed and _runs_on(row, known.get(str(row.uid)))
    ]
    if not same:
        return
    # again with the conditions: somebody may have taken or changed a row since
    told = _running_in(reconcilers.rows_of(reconciler.kind), cluster_key, reason=Reason.UNREACHABLE)
    told.filter(pk__in=[row.pk for row in same]).update(reason="", message="", updated_at=now())
    _publish(reconciler, same)


def _slim(reconciler: Any, rows: QuerySet[Any]) -> QuerySet[Any]:
    """Read only what is asked of them here: of ten thousand whole rows that is seconds."""
    held = {field.name for field in rows.model._meta.concrete_fields}  # noqa: SLF001
    own = held & {"uid", "launch", "external_ref"}  # one kind has the same launch for ever
    uids = (f"{name}__uid" for name in reconciler.related)
    return rows.select_related(*reconciler.related).only(*own, *uids)


def _publish(reconciler: Any, rows: Iterable[Any]) -> None:
    """Tell each page once or twice, not once for each of its rows: it looks at all of them."""
    topics = sorted({t for row in rows for t in reconcilers.topics_of(reconciler, row)})
    for begin in range(0, len(topics), _TOPICS):
        bus.publish(topics[begin : begin + _TOPICS], {"kind": reconciler.kind})


def _running(reconciler: Any, cluster_key: str, *, reason: str) -> QuerySet[Any]:
    return _running_in(reconciler.model._default_manager.all(), cluster_key, reason=reason)  # noqa: SLF001


def _running_in(rows: QuerySet[Any], cluster_key: str, *, reason: str) -> QuerySet[Any]:
    """What runs as it is wanted, was told this, and is not being looked at."""
    return rows.filter(
        Q(lease_until__isnull=True) | Q(lease_until__lt=now()),
        cluster_key=cluster_key,
        deleted_at__isnull=True,
        reason=reason,
        phase=Phase.RUNNING,
        desired=Desired.RUNNING,
        observed_generation=F("generation"),
    )


def _runs_on(row: Any, seen: ObservedWorkload | None) -> bool:
    """Whether the pod that the row followed to "running" is the one that is ready now."""
    if seen is None or seen.seen != Seen.READY:
        return False
    pod = (row.external_ref or {}).get("pod") or {}
    uid = (seen.data.get("detail") or {}).get("pod_uid")
    return bool(uid) and pod.get("uid") == uid and pod.get("launch") == row.launch == seen.launch
