"""One holder at a time for a named duty, with a fence that grows with each change of holder."""

import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F, Q

from common.clock import now
from runtime import incarnation
from runtime.models import Lease


@dataclass(frozen=True)
class Held:
    """The duty ``name`` is ours until it is not renewed; ``fence`` marks what we write."""

    name: str
    holder: uuid.UUID
    fence: int
    ttl_s: float

    def renew(self) -> bool:
        """Keep it. False: somebody else has it now, stop at once."""
        until = now() + timedelta(seconds=self.ttl_s)
        mine = Lease.objects.filter(name=self.name, holder=self.holder, fence=self.fence)
        return bool(mine.update(until=until))

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
    holder = incarnation.new_token()
    free = Q(until__isnull=True) | Q(until__lt=at)
    if known.holder is not None and incarnation.is_dead(known.holder):
        free |= Q(holder=known.holder)
    mine = Lease.objects.filter(free, name=name)
    if not mine.update(holder=holder, until=at + timedelta(seconds=ttl_s), fence=F("fence") + 1):
        return None
    fence = Lease.objects.filter(name=name, holder=holder).values_list("fence", flat=True).first()
    return None if fence is None else Held(name, holder, fence, ttl_s)
