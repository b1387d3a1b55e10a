"""How many replicas endpoints need, made true within their bounds, limits and budgets.

Up at once, down after a minute that needed less.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F, Q, Sum
from django.db.models.functions import Coalesce

from accounts.principal import Principal
from common.clock import now
from common.errors import BerthError
from quotas import services as quotas
from runtime.models import ONE_MACHINE
from runtime.protocol import Desired, Phase
from serving.models import Endpoint
from serving.selectors import lacks_files
from serving.services.base import for_each
from work import kinds
from work.attached import Attached
from work.services.base import changed, locked
from work.services.launch import hold
from work.services.resolve import Resolved

if TYPE_CHECKING:
    from uuid import UUID

FRESH = timedelta(seconds=15)  # what a gateway that ended had in hand
LESS_AFTER_S = 60.0
REFUSED_S = 30.0  # until what limits refused is asked again


def most_of(row: Endpoint) -> int:
    """Return how many it may have: GPUs of this machine are given at its start, once."""
    fixed = row.cluster_key == ONE_MACHINE and row.gpus
    return row.min_replicas if fixed else row.max_replicas


def needed(in_hand: int, concurrency: int, least: int, most: int) -> int:
    """Return how many answer ``in_hand`` requests, each ``concurrency`` at once."""
    return min(max(-(-in_hand // max(1, concurrency)), least), most)


@dataclass
class Needs:
    """What one endpoint needed in the last minute. A worker that begins anew knows less, and so
    only keeps replicas for longer.
    """

    seen: deque[tuple[float, int]] = field(default_factory=deque)
    since: float | None = None

    def wanted(self, at: float, now_needed: int, current: int) -> int:
        """Note what is needed at ``at``; return how many there should be."""
        self.since = at if self.since is None else self.since
        self.seen.append((at, now_needed))
        while self.seen[0][0] < at - LESS_AFTER_S:
            self.seen.popleft()
        if now_needed >= current:
            return now_needed
        if at - self.since < LESS_AFTER_S:
            return current
        return min(current, max(number for _at, number in self.seen))


class Scaler:
    """Keeps in mind what was needed; everything else stands in rows."""

    def __init__(self) -> None:
        self._needs: dict[UUID, Needs] = {}
        self._refused: dict[UUID, float] = {}

    def tick(self) -> int:
        """Change what has to; one question where nothing does. Return how many changed."""
        at = time.monotonic()
        hand = Sum(
            F("pressures__answering") + F("pressures__waiting"),
            filter=Q(pressures__seen_at__gt=now() - FRESH),
        )
        rows = Endpoint.objects.filter(
            Q(max_replicas__gt=F("min_replicas"))
            | Q(replicas__lt=F("min_replicas"))
            | Q(replicas__gt=F("max_replicas")),
            desired=Desired.RUNNING,
            phase=Phase.RUNNING,
            deleted_at=None,
        )
        rows = rows.select_related("version__model")
        found = list(rows.annotate(in_hand=Coalesce(hand, 0)))
        alive = {row.uid for row in found}
        self._needs = {uid: kept for uid, kept in self._needs.items() if uid in alive}
        self._refused = {uid: until for uid, until in self._refused.items() if until > at}
        return for_each(found, self._look)

    def _look(self, row: Any) -> bool:
        at, most = time.monotonic(), most_of(row)
        number = needed(row.in_hand, row.concurrency, row.min_replicas, most)
        kept = self._needs.setdefault(row.uid, Needs())
        wanted = min(max(kept.wanted(at, number, row.replicas), row.min_replicas), most)
        is_more = wanted > row.replicas
        if wanted == row.replicas or (is_more and row.uid in self._refused):
            return False
        if lacking := lacks_files(row.version):  # none can begin, nor one that ends begin again
            told = Endpoint.objects.filter(pk=row.pk).exclude(scaling_problem=lacking[:500])
            told.update(scaling_problem=lacking[:500])
            return False
        done = replicas_set(row, wanted)
        if is_more and Endpoint.objects.filter(pk=row.pk, scaling_problem__gt="").exists():
            self._refused[row.uid] = at + REFUSED_S
        return done


def replicas_set(found: Endpoint, wanted: int) -> bool:
    """Have ``wanted`` replicas, or as many more as limits allow; say where that are fewer."""
    problem = ""
    step = 1 if wanted > found.replicas else -1
    for number in range(wanted, found.replicas, -step):
        try:
            if not _set(found, number, problem):
                return False
        except BerthError as error:
            problem = str(error)
        else:
            return True
    Endpoint.objects.filter(pk=found.pk).update(scaling_problem=problem[:500])
    return False


@transaction.atomic
def _set(found: Endpoint, number: int, problem: str) -> bool:
    row = locked(found)
    same = (row.launch, row.replicas) == (found.launch, found.replicas)
    if not same or row.desired != Desired.RUNNING or row.phase != Phase.RUNNING:
        return False  # somebody else changed it: the next look decides
    row.replicas, row.scaled_at, row.scaling_problem = number, now(), problem[:500]
    kind = kinds.kind_of(row.kind)
    amounts = Resolved(kind, row, Attached(), row.uid).amounts
    if number < found.replicas:
        quotas.lower(row.uid, amounts)  # whatever limits and budgets say now: it is less
    else:
        hold(Principal(row.owner), row, amounts)
    row.save(update_fields=["replicas", "scaled_at", "scaling_problem", "updated_at"])
    changed(row)
    return True
