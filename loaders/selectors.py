"""Reading loads. All rows come through ``projects.access``."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import Exists, OuterRef, Q
from django.utils.translation import gettext as _

from common.errors import Forbidden, NotFound
from loaders.choices import State
from loaders.models import Load, LoadRun, RunLog
from loaders.states import ENDING, SETTLED, state_of
from runtime.protocol import Desired
from runtime.reasons import Reason
from volumes.choices import VolumeKind
from work.kinds import kind_of
from work.selectors import visible_to, workload_get

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from django.db.models import QuerySet

    from accounts.principal import Principal
    from projects.models import Project

RELATED = ("project", "owner", "volume", "volume__owner", "credential")


def loads_visible_to(who: Principal, project: Project | None = None) -> QuerySet[Load]:
    """Return the loads ``who`` may see, newest first; no secret is loaded with them."""
    return visible_to(who, kind_of(Load.KIND), project)


def load_get(who: Principal, uid: UUID | str, project: Project | None = None) -> Load:
    """Return one load, or NotFound (the same for "not yours")."""
    row: Load = workload_get(who, kind_of(Load.KIND), uid, project)
    return row


def matching(rows: QuerySet[Load], words: str) -> QuerySet[Load]:
    """Narrow to what carries ``words`` in its name or its bucket's."""
    plain = words.replace("\x00", "")
    return rows.filter(
        Q(name__icontains=plain) | Q(bucket__icontains=plain) | Q(prefix__icontains=plain)
    )


def sees_inside(who: Principal, row: Load) -> bool:
    """Whether names of files may be shown: a home is its owner's alone."""
    return row.volume.kind != VolumeKind.HOME or row.volume.owner_id == who.user.pk


def require_inside(who: Principal, row: Load) -> None:
    """Raise Forbidden where names of files are not shown: what a run writes names them."""
    if not sees_inside(who, row):
        raise Forbidden(_("Names of files in a home are shown to its owner only."))


def runs_of(row: Load, limit: int = 50) -> Sequence[LoadRun]:
    """Return what it did so far, the latest first; ``has_log`` where what it wrote is kept."""
    has_log = Exists(RunLog.objects.filter(run=OuterRef("pk")))
    runs = row.runs.select_related("started_by").annotate(has_log=has_log)
    return list(runs.order_by("-launch")[:limit])


# --- data before GPU --------------------------------------------------------------------------


def load_for_need(who: Principal, project: Project, uid: UUID | str) -> Load:
    """Return a load that work of ``who`` may wait for, or NotFound."""
    row = load_get(who, uid, project)
    if row.desired == Desired.ABSENT:
        raise NotFound(_("There is no such load, or you may not see it."))
    return row


def missing(load_uids: Collection[UUID | str]) -> tuple[str, str] | None:
    """Return (reason, sentence) of the first load whose data is not there yet; None: all is.

    Data that was loaded once stays there: a later run of the same load is not waited for.
    """
    wanted = {UUID(str(uid)) for uid in load_uids}
    if not wanted:
        return None
    here = Q(deleted_at__isnull=True) & ~Q(desired=Desired.ABSENT)
    found = {row.uid: row for row in Load.objects.filter(here, uid__in=wanted).order_by("pk")}
    waits: list[Load] = []
    for uid in sorted(wanted, key=str):
        row = found.get(uid)
        if row is None:
            return Reason.DATA_MISSING, _("A load that it needs was removed.")
        if row.loaded_at is not None:
            continue
        state = state_of(row)
        if state in SETTLED | ENDING:
            names = {"name": row.name, "state": State(state).label}
            return Reason.DATA_MISSING, _("The load “%(name)s” is not done: %(state)s.") % names
        waits.append(row)
    return (Reason.DATA, _waits(waits[0])) if waits else None


def _waits(row: Load) -> str:
    """Return what is waited for. No number that changes each second: this is stored."""
    return _("Waiting for the load “%(name)s”.") % {"name": row.name}
