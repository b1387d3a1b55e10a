"""Which living worker a lease belongs to, so that a dead worker's rows are taken over soon.

The first half of every lease token is the worker's own random number; each worker renews a
``Lease`` named after it. A row whose token belongs to no living worker is free, long before
its lease would end. Correctness does not rest on this: a late result is dropped by its token.
"""

import secrets
import uuid
from datetime import timedelta

from django.db.models import Q

from common.clock import now
from runtime.models import Lease

BEAT_S = 8.0
ALIVE_S = 25.0
_mine: list[str] = []


def mine() -> str:
    """Return this process's number (16 hex digits), made at first use."""
    if not _mine:
        _mine.append(secrets.token_hex(8))
    return _mine[0]


def renew_after_fork() -> None:
    _mine.clear()


def new_token() -> uuid.UUID:
    return uuid.UUID(hex=mine() + secrets.token_hex(8))


def beat() -> None:
    """Say that this worker lives."""
    until = now() + timedelta(seconds=ALIVE_S)
    Lease.objects.update_or_create(name=f"worker:{mine()}", defaults={"until": until})


def leave() -> None:
    """Say that this worker ends, after it has finished what it held."""
    Lease.objects.filter(name=f"worker:{mine()}").delete()


def alive() -> set[str]:
    """Return the numbers of the living workers; forgets the long dead."""
    at = now()
    Lease.objects.filter(Q(until__lt=at - timedelta(hours=1)), name__startswith="worker:").delete()
    names = Lease.objects.filter(name__startswith="worker:", until__gte=at)
    return {name.partition(":")[2] for name in names.values_list("name", flat=True)}


def owner_of(token: uuid.UUID) -> str:
    return token.hex[:16]
