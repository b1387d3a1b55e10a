"""What a notebook's page tells of idleness: when it ends, and one press that keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.utils.translation import ngettext

from hubapi.notices import Act, Notice
from parking import choices, selectors
from parking.services.acts import idle_extend
from runtime.protocol import Desired
from work import kinds
from work.models import Workload

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal


def idle_notices(uid: UUID, reader: User) -> list[Notice]:  # noqa: ARG001 - all read the same
    """Return the warning of one that is idle, as its owner was told; beyond its policy no button:
    a reason is asked on its page.
    """
    rows = Workload.objects.filter(uid=uid, desired=Desired.RUNNING, idle__warned_at__isnull=False)
    row = rows.select_related("project", "owner").first()
    if row is None or row.kind not in {kind.word for kind in kinds.kinds()}:
        return []
    notice = selectors.notice_of(row)
    if notice is None or not notice.is_told:
        return []
    ends = notice.act != choices.Act.TELL
    acts: tuple[Act, ...] = ()
    if ends and notice.minutes and not notice.asks_why:
        text = ngettext(
            "Keep it for %(n)s more minute", "Keep it for %(n)s more minutes", notice.minutes
        )
        acts = (Act("extend", text % {"n": notice.minutes}, lambda who: _extend(who, row)),)
    return [
        Notice(
            id=f"idle-{row.launch}-{notice.since:%Y%m%d%H%M%S}",
            text=notice.sentence,
            level="warning" if ends else "info",
            until=notice.at if ends else None,
            saves=ends,
            acts=acts,
        )
    ]


def _extend(who: Principal, row: Workload) -> Any:
    return idle_extend(principal=who, row=row)
