"""What budgets that are spent mean for work of any kind: it borrows only, waits, or is stopped."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from queues import local
from queues.choices import Beyond
from runtime.hints import hint_uids
from runtime.protocol import Desired, Phase
from work import kinds
from work.choices import StopReason
from work.models import Workload
from work.services.base import locked
from work.services.ending import OVER, request_stop

if TYPE_CHECKING:
    from budgets.selectors import Books

_HOLDS_BACK = frozenset({Phase.PENDING})


def looked(books: Books) -> None:
    """Let work with GPUs stand as budgets say now; the engine and this machine's line follow."""
    rows = Workload.objects.filter(
        kind__in=[kind.word for kind in kinds.kinds()],
        desired=Desired.RUNNING,
        deleted_at__isnull=True,
        gpus__gt=0,
    ).exclude(OVER)
    limited = frozenset[UUID]().union(*(meter.projects for meter in books.meters))
    rows = rows.filter(Q(project__uid__in=limited) | ~Q(over_budget=Beyond.NONE))
    stands: dict[UUID, str] = {}
    changed: dict[UUID, str] = {}
    for row in rows.select_related("project", "owner").order_by("pk"):
        whose = (row.project.uid, row.owner.uid)
        if books.stops(*whose) and row.phase not in _HOLDS_BACK:
            _stop(row)
            continue
        stands[row.uid] = books.beyond(*whose)
        if stands[row.uid] != row.over_budget:
            changed[row.uid] = stands[row.uid]
    words: dict[str, list[UUID]] = defaultdict(list)
    for uid, word in changed.items():
        words[word].append(uid)
    for word, uids in words.items():
        Workload.objects.filter(uid__in=uids).update(over_budget=word)
    local.budgets_looked_at(stands)
    for kind in kinds.kinds() if changed else ():
        hint_uids(kind.word, list(changed))


@transaction.atomic
def _stop(found: Workload) -> None:
    request_stop(locked(found), reason=StopReason.BUDGET, actor=None)
