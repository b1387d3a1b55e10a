"""What a page inside the workspace tells of its idleness, and the press that puts it off there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from hubapi.notices import Act as Press
from hubapi.notices import Notice
from parking import words
from parking.choices import Act
from parking.selectors import notice_of
from parking.services.acts import idle_extend
from work.models import Workload

if TYPE_CHECKING:
    from uuid import UUID

    from accounts.models import User


def idle_notices(uid: UUID, reader: User) -> list[Notice]:
    """Return what follows for one whose owner was warned; beyond its policy the page asks why."""
    row = Workload.objects.select_related("project", "owner").filter(uid=uid).first()
    found = notice_of(row) if row is not None else None
    if row is None or found is None or not found.is_told or found.at is None:
        return []
    ends = {Act.PARK: _("It is parked then."), Act.STOP: _("It is stopped then.")}.get(
        Act(found.act)
    )
    if ends is None:  # it is told, and nothing follows
        return [Notice("idle", words.idle_words(found.since), level="info")]
    said = [words.idle_words(found.since), ends, _("Files and address are kept.")]
    presses: tuple[Press, ...] = ()
    if found.minutes and not found.asks_why:
        label = ngettext("%(n)d minute more", "%(n)d minutes more", found.minutes)
        keep: Any = partial(idle_extend, row=row)
        presses = (Press("extend", label % {"n": found.minutes}, lambda who: keep(principal=who)),)
    elif found.minutes and row.owner_id == reader.pk:
        said.append(_("On its page you may keep it, and say what for."))
    return [Notice("idle", " ".join(said), until=found.at, saves=True, acts=presses)]
