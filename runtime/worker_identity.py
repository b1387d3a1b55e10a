"""Which living worker a lease belongs to, so that a dead worker's rows are taken over soon.

The first half of every lease token is the worker's own random number; each worker renews a
``Lease`` named after it. A row whose token belongs to no living worker is free, long before
its lease would end. Correctness does not rest on this: a late result is dropped by its token.

The name also says where the worker runs and its process id, so that on the same machine a dead
one is recognised at once.
"""

import hashlib
import os
import secrets
import uuid
from datetime import timedelta
from pathlib import Path

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
