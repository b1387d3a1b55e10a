"""Whose GPUs are asked back, for whom, and who is told of it; for work of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.utils import translation
from django.utils.translation import gettext as _

from events import services as events
from hubapi.notices import Notice
from notifications.services import notify
from projects.models import Project
from queues.admission import reclaim_of
from runtime.protocol import Desired, Phase
from runtime.reasons import Reason
from work.models import Workload

if TYPE_CHECKING:
    from datetime import datetime

    from accounts.models import User
    from runtime.reconcilers import Transition


def on_transition(change: Transition) -> None:
    """Runs inside the engine's apply transaction: what it writes is exact, once, or not at all."""
    row: Any = change.row
    if not isinstance(row, Workload) or change.gone:
        return
    if change.outcome.reason != Reason.PREEMPTED or change.seen.reason == Reason.PREEMPTED:
        return
    told = (change.outcome.external_ref or {}).get("reclaim") or {}
    whose = _project_of(str(told.get("for") or ""))
    events.record(
        actor=None,
        verb=f"{row.kind}.reclaimed",
        target=row,
        project_uid=row.project.uid,
        data={"run": change.seen.launch, "gpus": row.gpus, "for": told.get("for", "")},
    )
    with translation.override(row.owner.reads_in):
        notify(
            users=[row.owner],
            kind="work.reclaimed",
            params={"name": row.name, "whom": whom(whose, row.owner)},
            url=change.row.get_absolute_url(),
            key=f"{row.uid}/{change.seen.launch}",
            project_id=row.project_id,
            shared={"whom": _("another project")},
        )


@dataclass(frozen=True)
class GivesBack:
    """It is ending so that others get its devices; ``until``: so long it has, where one knows."""

    whom: str
    until: datetime | None


def giving_back(reader: User, row: Workload) -> GivesBack | None:
    """Return for whom it gives its devices back at this moment; None: it does not."""
    if row.phase != Phase.STOPPING or row.reason != Reason.PREEMPTED:
        return None
    owed = reclaim_of(str(row.uid))
    project = _project_of(owed.beneficiary) if owed else None
    return GivesBack(whom(project, reader), owed.until if owed else None)


def reclaim_notices(uid: UUID, reader: User) -> list[Notice]:
    """Return what a page of it tells of its end; of a cluster's own queue it hears afterwards."""
    row = Workload.objects.filter(uid=uid, desired=Desired.RUNNING).first()
    if row is None or row.reason != Reason.PREEMPTED or row.phase == Phase.RUNNING:
        return []
    gives = giving_back(reader, row)
    back = _("It goes on by itself when there is room again. Files and address are kept.")
    if gives is None:
        return [Notice("reclaim", f"{_('Its GPUs were asked back.')} {back}")]
    said = _("Its GPUs are asked back for %(whom)s: it ends now.") % {"whom": gives.whom}
    return [Notice("reclaim", f"{said} {back}", until=gives.until, saves=True)]


def whom(project: Project | None, reader: User) -> str:
    """Return a project's name to who belongs to it; to others that it is another one."""
    if project is not None and project.memberships.filter(user=reader).exists():
        return project.name
    return _("another project")


def _project_of(uid: str) -> Project | None:
    """Return the project of the work that gets them; a cluster's queue may name none of ours."""
    try:
        found = Workload.objects.filter(uid=UUID(uid)).select_related("project").first()
    except ValueError:
        return None
    return found.project if found is not None else None
