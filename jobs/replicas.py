"""The replicas of a job's latest launch: what a driver told of them, and which of them failed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jobs.models import Replica
from runtime.protocol import ReplicaSeen, Seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs.models import Job
    from runtime.protocol import Observation

_TOLD = ("role", "seen", "exit_code", "reason", "node", "started_at", "ended_at", "restarts")
_STOPPED = "stopped"  # a driver's word: it did not end by itself


def replicas_of(seen: Observation) -> tuple[ReplicaSeen, ...]:
    """Return each replica; a lone one is what the whole is."""
    if seen.replicas or seen.seen is Seen.MISSING:
        return seen.replicas
    lone = ReplicaSeen(
        index=0,
        seen=seen.seen,
        exit_code=seen.exit_code,
        reason=seen.reason,
        node=str(seen.detail.get("node") or ""),
        started_at=seen.started_at,
        ended_at=seen.ended_at,
        restarts=int(str(seen.detail.get("failed_attempts", seen.detail.get("restarts", 0)))),
    )
    return (lone,)


def first_failed(seen: Observation) -> int | None:
    """Return the number of the replica whose end is the whole's; None: none ended badly."""
    failed = [
        one
        for one in replicas_of(seen)
        if one.seen is Seen.EXITED and one.exit_code != 0 and one.reason != _STOPPED
    ]
    return min(failed, key=lambda one: one.ended_at or 0.0).index if failed else None


def shell_code(code: int | None) -> int | None:
    """Return the exit code as a shell gives it: ended by signal 9 is 137."""
    return code if code is None or code >= 0 else 128 - code


def news(row: Job, seen: Observation) -> list[Replica]:
    """Return the rows that say otherwise than what was seen, as they should be."""
    known = {one.index: one for one in Replica.objects.filter(job=row, launch=row.launch)}
    if seen.seen is Seen.MISSING:  # gone by somebody's hand
        lost = [one for one in known.values() if one.seen not in {Seen.EXITED, Seen.MISSING}]
        for one in lost:
            one.seen = Seen.MISSING
        return lost
    told = [
        Replica(
            job=row,
            launch=row.launch,
            index=one.index,
            role=one.role[:32],
            seen=one.seen,
            exit_code=shell_code(one.exit_code),
            reason=one.reason[:64],
            node=one.node[:255],
            started_at=moment(one.started_at),
            ended_at=moment(one.ended_at),
            restarts=max(one.restarts, getattr(known.get(one.index), "restarts", 0)),
        )
        for one in replicas_of(seen)
    ]
    for one in told:  # its pod may have gone with what it knew
        if (before := known.get(one.index)) is not None and one.seen == Seen.EXITED:
            one.node = one.node or before.node
            one.started_at = one.started_at or before.started_at
    return [one for one in told if _facts(one) != _facts(known.get(one.index))]


def keep(rows: Sequence[Replica]) -> None:
    """Write them over what is known; what was seen of earlier launches goes."""
    Replica.objects.filter(job=rows[0].job, launch__lt=rows[0].launch).delete()
    Replica.objects.bulk_create(
        [Replica(**{name: getattr(one, name) for name in _ALL}) for one in rows],
        update_conflicts=True,
        unique_fields=["job", "launch", "index"],
        update_fields=_TOLD,
    )


_ALL = ("job", "launch", "index", *_TOLD)


def _facts(one: Replica | None) -> tuple[Any, ...]:
    return () if one is None else tuple(getattr(one, name) for name in _TOLD)


def moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
