"""One holder at a time for a named duty, with a fence that grows with each change of holder."""

import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F, Max, Q

from common.clock import now
from runtime import worker_identity
from runtime.models import Lease


@dataclass(frozen=True)
class Held:
    """The duty ``name`` is ours until it is not renewed; ``fence`` marks what we write."""

    name: str
    holder: uuid.UUID
    fence: int
    ttl_s: float

    def renew(self, *, worked: bool = False) -> bool:
        """Keep it. False: somebody else has it now, stop at once.

        ``worked``: what the duty is for was done just now; the next holder may ask for when.
        """
        at = now()
        done = {"worked_at": at} if worked else {}
        mine = Lease.objects.filter(name=self.name, holder=self.holder, fence=self.fence)
        return bool(mine.update(until=at + timedelta(seconds=self.ttl_s), **done))

    def turned(self, every_s: float) -> None:
        """Note that a turn of the duty begins; one is due every ``every_s``."""
        mine = Lease.objects.filter(name=self.name, holder=self.holder, fence=self.fence)
        mine.update(turned_at=now(), every_s=every_s)

    def is_mine(self) -> bool:
        return Lease.objects.filter(
            name=self.name, holder=self.holder, fence=self.fence, until__gt=now()
        ).exists()

    def release(self) -> None:
        mine = Lease.objects.filter(name=self.name, holder=self.holder, fence=self.fence)
        mine.update(until=None, holder=None)


def acquire(name: str, *, ttl_s: float) -> Held | None:
    """Take the duty when nobody has it. Exactly one of many callers wins."""
    at = now()
    known, _made = Lease.objects.get_or_create(name=name)
    holder = worker_identity.new_token()
    free = Q(until__isnull=True) | Q(until__lt=at)
    if known.holder is not None and worker_identity.is_dead(known.holder):
        free |= Q(holder=known.holder)
    mine = Lease.objects.filter(free, name=name)
    if not mine.update(holder=holder, until=at + timedelta(seconds=ttl_s), fence=F("fence") + 1):
        return None
    fence = Lease.objects.filter(name=name, holder=holder).values_list("fence", flat=True).first()
    return None if fence is None else Held(name, holder, fence, ttl_s)


# A turn may take its time, and the one before the worker's end was perhaps its last.
PATIENCE_S = 60.0


def is_late(row: Lease) -> bool:
    """Whether a duty's next turn should have begun long ago."""
    if row.turned_at is None or row.every_s is None:
        return False
    return now() - row.turned_at > timedelta(seconds=2 * row.every_s + PATIENCE_S)


def duties() -> list[Lease]:
    """Return what workers do again and again, by name; not what an older version did."""
    rows = Lease.objects.filter(turned_at__isnull=False)
    last = rows.aggregate(last=Max("turned_at"))["last"]
    if last is None:
        return []
    return list(rows.filter(turned_at__gte=last - timedelta(days=1)).order_by("name"))
