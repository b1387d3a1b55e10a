"""Opens and closes intervals inside the engine's apply: exact, once, whatever is repeated.

What counts is the launch and size that the step knew (``transition.seen``); the row itself
may carry a newer wish already.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from clusters.models import Node
from common.clock import now
from runtime.models import ObservedWorkload
from runtime.protocol import Phase
from runtime.reconcilers import Transition, reconciler_for
from usage.models import Interval

_HOLDING = {Phase.STARTING, Phase.RUNNING, Phase.STOPPING}
_ENDED = {Phase.STOPPED, Phase.FAILED}
_SKEW = timedelta(seconds=5)


def keep_intervals(transition: Transition) -> None:
    row = transition.seen or transition.row
    if getattr(row, "launch", None) is None or not hasattr(row, "owner_id"):
        return  # not a workload: a project, a volume
    state = _state(transition)
    if transition.gone:
        _close(row, launch=row.launch, at=now(), reason="deleted")
        return
    if transition.outcome.updates.get("launch", row.launch) != row.launch:
        # It gave its devices back, and another launch of the same intent waits for them.
        _close(row, launch=row.launch, at=_ended_at(state), reason=str(transition.row.reason))
        return
    if transition.after in _HOLDING and state.get("launch") == row.launch:
        _open(transition, row, state)
    elif transition.after in _ENDED:
        if state.get("launch") == row.launch:
            _open(transition, row, state)  # started and ended between two looks
        ended = _ended_at(state)
        _close(row, launch=row.launch, at=ended, reason=str(transition.row.reason))


def _state(transition: Transition) -> dict[str, Any]:
    """What the engine's pass knew of the outside thing (runtime.workload)."""
    given = transition.outcome.external_ref
    return dict(given if given is not None else transition.row.external_ref or {})


def _open(transition: Transition, row: Any, state: dict[str, Any]) -> None:
    """Make the launch's interval, or put its start right when the driver told it exactly.

    A pod that replaced another began later: what the one before it used still counts.
    """
    started = _started_at(transition, row, state)
    devices = state.get("devices")
    # The engine holds the row: nobody else writes of this launch meanwhile.
    found = Interval.objects.filter(uid=row.uid, launch=row.launch).first()
    if found is None:
        count = getattr(reconciler_for(row.KIND), "replicas_of", None)
        size = row.resources.times(count(row) if count else 1)
        Interval.objects.create(
            uid=row.uid,
            launch=row.launch,
            kind=row.KIND,
            name=str(row)[:120],
            project_uid=row.project.uid,
            project_slug=row.project.slug,
            owner_uid=row.owner.uid,
            owner_name=row.owner.username,
            cluster_key=row.cluster_key,
            gpus=len(devices) if devices else size.gpus,
            flavor=_flavor(row),
            cpu_milli=size.cpu_milli,
            memory_mib=size.memory_mib,
            started_at=started,
        )
        if row.launch > 1:  # an earlier launch of the same workload is over at the latest now
            _close(row, launch=row.launch - 1, at=started, reason="restarted")
        return
    flavor = found.flavor or _flavor(row)
    if (state.get("pod") or {}).get("times"):
        started = found.started_at
    if found.ended_at is None and (found.started_at, found.flavor) != (started, flavor):
        Interval.objects.filter(pk=found.pk, ended_at__isnull=True).update(
            started_at=started, flavor=flavor
        )


def _flavor(row: Any) -> str:
    """Return the kind of GPU it has: as asked, or that of the node where "any of" came to."""
    size, kinds = row.resources, row.resources.kinds
    if not size.gpus or len(kinds) == 1:
        return ",".join(kinds)
    seen = ObservedWorkload.objects.filter(cluster_key=row.cluster_key, uid=row.uid).first()
    node = (seen.data.get("detail") or {}).get("node") if seen else None
    if not node:
        return ""
    rows = Node.objects.filter(cluster__key=row.cluster_key, name=node)
    return rows.values_list("flavor__name", flat=True).first() or ""


def _close(row: Any, *, launch: int, at: datetime, reason: str) -> None:
    """Close what is open up to ``launch``; never before its own start."""
    for found in Interval.objects.filter(uid=row.uid, launch__lte=launch, ended_at__isnull=True):
        Interval.objects.filter(pk=found.pk, ended_at__isnull=True).update(
            ended_at=max(found.started_at, at), end_reason=reason[:64]
        )


def _started_at(transition: Transition, row: Any, state: dict[str, Any]) -> datetime:
    """The process's own start if the driver told it, else when it got its place."""
    told = transition.outcome.updates.get("started_at")
    if told is None and transition.row.launch == row.launch:
        told = getattr(transition.row, "started_at", None)
    placed = _moment(state.get("placed_at"))
    if told is not None and (placed is None or told >= placed - _SKEW):
        return told
    return placed or now()  # what the row says is of an earlier launch


def _ended_at(state: dict[str, Any]) -> datetime:
    ended = _moment((state.get("exit") or {}).get("at"))
    return min(ended, now()) if ended is not None else now()


def _moment(seconds: Any) -> datetime | None:
    if not isinstance(seconds, int | float):
        return None
    return datetime.fromtimestamp(seconds, tz=UTC)
