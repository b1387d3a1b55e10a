"""One holder at a time for a named duty, and which living worker a lease belongs to.

A fence grows with each change of a duty's holder. The first half of every lease token is the
worker's own random number; each worker renews a ``Lease`` named after it, so that a dead worker's
rows are taken over soon: a row whose token belongs to no living worker is free, long before its
lease would end. Correctness does not rest on this: a late result is dropped by its token.

The name also says where the worker runs and its process id, so that on the same machine a dead
one is recognised at once.
"""

import hashlib
import os
import secrets
import uuid
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.db.models import F, Max, Q

from common.clock import now
from runtime.models import Lease

BEAT_S = 8.0
ALIVE_S = 25.0
_mine: list[str] = []
os.register_at_fork(after_in_child=_mine.clear)  # a child is another worker


def mine() -> str:
    """Return this process's number (16 hex digits), made at first use."""
    if not _mine:
        _mine.append(secrets.token_hex(8))
    return _mine[0]


def _here() -> str:
    """Return a word for this machine (since its boot) and space of process ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return secrets.token_hex(4)  # unknown: nobody is recognised as being here
    return hashlib.sha256((boot + space).encode()).hexdigest()[:12]


def _name() -> str:
    return f"worker:{mine()}:{_here()}:{os.getpid()}"


def _runs(name: str) -> bool:
    """False when ``worker:<number>:<here>:<pid>`` was on this machine and is no more."""
    _worker, _number, place, pid = [*name.split(":"), "", ""][:4]
    if place != _here() or not pid.isdigit():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def new_token() -> uuid.UUID:
    return uuid.UUID(hex=mine() + secrets.token_hex(8))


def beat() -> None:
    """Say that this worker lives, and forget the long dead."""
    at = now()
    until = at + timedelta(seconds=ALIVE_S)
    Lease.objects.update_or_create(name=_name(), defaults={"until": until})
    Lease.objects.filter(Q(until__lt=at - timedelta(hours=1)), name__startswith="worker:").delete()


def leave() -> None:
    """Say that this worker ends, after it has finished what it held."""
    Lease.objects.filter(name=_name()).delete()


def alive() -> set[str]:
    """Return the numbers of the living workers."""
    names = Lease.objects.filter(name__startswith="worker:", until__gte=now())
    return {n.split(":")[1] for n in names.values_list("name", flat=True) if _runs(n)}


def is_dead(token: uuid.UUID) -> bool:
    """Whether the worker that made ``token`` is known to be no more. Unknown is not dead."""
    row = Lease.objects.filter(name__startswith=f"worker:{owner_of(token)}:").first()
    if row is None:
        return False
    return row.until is None or row.until < now() or not _runs(row.name)


def owner_of(token: uuid.UUID) -> str:
    return token.hex[:16]


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
    holder = new_token()
    free = Q(until__isnull=True) | Q(until__lt=at)
    if known.holder is not None and is_dead(known.holder):
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
    rows = Lease.objects.filter(turned_at__isnull=False, every_s__isnull=False)
    last = rows.aggregate(last=Max("turned_at"))["last"]
    if last is None:
        return []
    return list(rows.filter(turned_at__gte=last - timedelta(days=1)).order_by("name"))
