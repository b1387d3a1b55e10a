"""How long work held GPUs before, and what that says of when somebody's turn comes."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clusters.models import Cluster
from common.clock import now
from placement.decision import Estimate
from queues.models import Turn

if TYPE_CHECKING:
    from datetime import datetime

    from clusters.models import Claim

KEPT = timedelta(days=90)
_LOOKED_AT = 1000  # the last ones
# Who waits in a longer line is counted, not read: to play on what becomes of it takes a tenth of a
# second and more, and a page asks for several things at once.
LONG = 30
FEW_TURNS = 100  # of those that are over; in a long line the last ones say enough
_READ = (
    *("workload_kind", "project_uid", "granted_at", "ended_at"),
    *("expected_from", "expected_until"),
)
_ENOUGH = 5  # so many of a project say more than all of a kind
_LOW, _HIGH = 0.25, 0.75


class History:
    """The last turns on a cluster, read once."""

    def __init__(self, cluster: Cluster, *, most: int = _LOOKED_AT) -> None:
        rows = Turn.objects.filter(cluster=cluster, gpus__gt=0).order_by("-ended_at")
        self._all: list[float] = []
        self._by: dict[tuple[str, ...], list[float]] = defaultdict(list)
        right = over = 0
        for kind, project, granted_at, ended_at, first, last in rows.values_list(*_READ)[:most]:
            seconds = (ended_at - granted_at).total_seconds()
            self._all.append(seconds)
            self._by[kind,].append(seconds)
            self._by[kind, str(project)].append(seconds)
            if first is not None and last is not None:
                over += 1
                right += first <= granted_at <= last
        self.held = right / over if over >= _ENOUGH else None
        self.samples = len(self._all)

    def held_for(self, kind: str) -> tuple[float, float] | None:
        """Return for how many seconds half of all turns of a kind held GPUs: from, until."""
        known = self._by[kind,]
        known = sorted(known if len(known) >= _ENOUGH else self._all)
        if not known:
            return None
        low, high = (known[int(part * (len(known) - 1) + 0.5)] for part in (_LOW, _HIGH))
        return low, high

    def by_count(self, kind: str, gpus: int, there: int) -> Estimate | None:
        """Return when a turn comes that so many GPUs are asked for before, its own with them."""
        held = self.held_for(kind)
        if held is None or not there:
            return None
        first, last = (now() + timedelta(seconds=gpus / there * seconds) for seconds in held)
        return Estimate(first, last, self.samples, self.held)

    def left(self, claim: Claim, *, late: bool, at: datetime) -> timedelta:
        """Return how much longer a claim holds what it has, by what was like it.

        ``late``: the longer of both answers. One that outlived all that is known goes on for as
        long as it did. Its time limit ends it.
        """
        since = claim.granted_at or at
        elapsed = (at - since).total_seconds()
        own = self._by[claim.workload_kind, str(claim.project_uid)]
        kind = self._by[claim.workload_kind,]
        known = own if len(own) >= _ENOUGH else kind if len(kind) >= _ENOUGH else self._all
        longer = sorted(seconds - elapsed for seconds in known if seconds > elapsed)
        if longer:
            left = longer[int((_HIGH if late else _LOW) * (len(longer) - 1) + 0.5)]
        else:
            left = max(60.0, elapsed * (2.0 if late else 0.5))
        found = timedelta(seconds=left)
        if claim.time_limit_minutes is not None:
            ends = since + timedelta(minutes=claim.time_limit_minutes)
            found = min(found, max(timedelta(0), ends - at))
        if claim.reclaim_until is not None:
            found = min(found, max(timedelta(0), claim.reclaim_until - at))
        return found


def keep(claim: Claim) -> None:
    """Note a turn that is over; the caller's transaction also ends the claim's hold."""
    if claim.granted_at is None or not claim.gpus:
        return
    Turn.objects.create(
        cluster_id=claim.cluster_id,
        workload_uid=claim.workload_uid,
        workload_kind=claim.workload_kind,
        project_uid=claim.project_uid,
        gpus=claim.gpus,
        gpu_flavor=claim.gpu_flavor,
        asked_at=claim.asked_at,
        granted_at=claim.granted_at,
        ended_at=now(),
        expected_from=claim.expected_from,
        expected_until=claim.expected_until,
        gave_back=claim.reclaim_at is not None,
    )


def keep_of_cluster(row: Any, *, asked_at: datetime, ended_at: datetime) -> None:
    """Note a turn of work on a cluster that keeps its own line; once, however often it is told."""
    cluster = Cluster.objects.filter(key=row.cluster_key).first()
    if cluster is None or not cluster.runs_images:
        return
    Turn.objects.get_or_create(
        workload_uid=row.uid,
        granted_at=row.started_at,
        defaults={
            "cluster": cluster,
            "workload_kind": row.KIND,
            "project_uid": row.project.uid,
            "gpus": row.gpus,
            "gpu_flavor": row.gpu_flavor,
            "asked_at": asked_at,
            "ended_at": ended_at,
        },
    )


def prune() -> int:
    return Turn.objects.filter(ended_at__lt=now() - KEPT).delete()[0]
