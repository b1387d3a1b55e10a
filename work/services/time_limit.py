"""How long work may run: what its kind and its project's queue allow, and moving its end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.errors import Conflict, wrong
from events import services as events
from queues import selectors as queues
from work import kinds
from work import standard_fields as s
from work.fields import Count
from work.services.base import changed, lock, own

if TYPE_CHECKING:
    from collections.abc import Collection

    from accounts.principal import Principal
    from work.kinds import Kind
    from work.models import Workload

DEFAULT_EXTENSION = 60
EXTENSION = Count(name="minutes", label="", low=1, high=60 * 24 * 7)


@transaction.atomic
def workload_extend(
    *, principal: Principal, row: Workload, minutes: int = DEFAULT_EXTENSION
) -> Any:
    """Move the end of one that runs, as far as its longest time allows."""
    own(principal, row)
    found = lock(row)
    EXTENSION.clean(minutes)
    if found.time_limit_minutes is None:
        raise Conflict(_("It has no time limit: there is nothing to extend."), code="no-limit")
    if not found.is_on_its_way:
        raise Conflict(_("It does not run: resume it first."), code="not-running")
    left = extension_left(found)
    if left is not None and minutes > left:
        more = _("It can be extended by at most %(left)d minutes more.") % {"left": left}
        raise Conflict(
            f"{more} {longest_words(found)}",
            code="extension-limit",
            extra={"left_minutes": left},
        )
    found.extended_minutes += minutes
    found.generation += 1
    if found.ends_at is not None:
        found.ends_at, found.warned_at = found.ends_at + timedelta(minutes=minutes), None
    fields = ["extended_minutes", "generation", "ends_at", "warned_at", "updated_at"]
    found.save(update_fields=fields)
    events.record(
        actor=principal,
        verb=f"{found.kind}.extended",
        target=found,
        project_uid=found.project.uid,
        data={"minutes": minutes},
    )
    changed(found)
    return found


def longest_of(kind: Kind, row: Workload) -> int | None:
    """Return the minutes that it runs at most; None: no limit."""
    own, queue = kind.longest_of(row), queues.longest_of(row.project, kind.purpose)
    return min((n for n in (own, queue) if n is not None), default=None)


def bound(kind: Kind, row: Workload, said: Collection[str]) -> None:
    """Give it the longest time of its project's queue, where nobody said one; Invalid: too long.

    What runs under a longer limit, of before, keeps it until it starts again.
    """
    name = s.TIME_LIMIT.name
    if name not in kind.table:
        return
    longest = queues.longest_of(row.project, kind.purpose)
    if longest is None or (row.time_limit_minutes or longest + 1) <= longest:
        return
    if name in said:
        raise wrong(name, _of_project(longest))
    if row.launch == 0 or not row.is_on_its_way:
        row.time_limit_minutes = longest


def _of_project(minutes: int) -> str:
    text = ngettext(
        "In this project such work runs at most %(n)d minute.",
        "In this project such work runs at most %(n)d minutes.",
        minutes,
    )
    return text % {"n": minutes}


def longest_words(row: Workload) -> str:
    """Return who bounds how long it runs: its project, or what it was made from; '': nobody."""
    kind = kinds.kind_of(row.kind)
    own, queue = kind.longest_of(row), queues.longest_of(row.project, kind.purpose)
    if queue is not None and (own is None or queue <= own):
        return _of_project(queue)
    if own is None:
        return ""
    text = ngettext(
        "What it was made from lets it run at most %(n)d minute.",
        "What it was made from lets it run at most %(n)d minutes.",
        own,
    )
    return text % {"n": own}


def extension_left(row: Workload) -> int | None:
    """Return the minutes by which the end may still move; None: as far as one likes."""
    if row.time_limit_minutes is None:
        return None
    longest = longest_of(kinds.kind_of(row.kind), row)
    if longest is None:
        return None
    return max(0, longest - row.time_limit_minutes - row.extended_minutes)
