"""Reading what belongs to a workload of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from common.errors import NotFound
from projects.access import permissions_of, scoped
from runtime.protocol import Desired
from work import kinds

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from accounts.models import User
    from accounts.principal import Principal
    from projects.models import Project
    from work.kinds import Kind
    from work.models import Step, Workload


def steps_of(row: Workload, launch: int | None = None) -> Sequence[Step]:
    """Return the timeline of one launch (the latest by default), oldest first."""
    return list(row.steps.filter(launch=launch or row.launch).order_by("id"))


def visible_to(who: Principal, kind: Kind, project: Project | None = None) -> QuerySet[Any]:
    """Return the rows of a kind whose name and state ``who`` may see, newest first."""
    rows = kind.model.objects.filter(deleted_at__isnull=True).select_related("project", "owner")
    if project is not None:
        rows = rows.filter(project=project)
    return scoped(rows, who, kind.read).order_by("-id")


def workload_get(who: Principal, kind: Kind, short_id: str, project: Project | None = None) -> Any:
    """Return one that ``who`` may see, or NotFound (the same for "not yours")."""
    row = visible_to(who, kind, project).filter(short_id=short_id).first()
    if row is None:
        raise NotFound(_("There is no such thing, or you may not see it."))
    return row


def is_owner(who: Principal, row: Workload) -> bool:
    """Whether ``who`` may read what is private in it."""
    return row.owner_id == who.user.pk


def may_change(who: Principal, row: Workload) -> bool:
    """Whether ``who`` may start and edit it: its owner, while they may make such work."""
    kind = kinds.kind_of(row.kind)
    granted = permissions_of(who, row.project)
    return is_owner(who, row) and kind.create in granted and kind.read in granted


def may_end(who: Principal, row: Workload) -> bool:
    """Whether ``who`` may stop and delete it: the owner always, managers too.

    A member whose role was lowered to viewer must still be able to give back what they hold.
    """
    kind = kinds.kind_of(row.kind)
    granted = permissions_of(who, row.project)
    if kind.manage in granted:
        return True
    return is_owner(who, row) and kind.read in granted and who.allows_scope(kind.create)


def names_taken(project: Project, owner: User, kind: Kind) -> frozenset[str]:
    """Return the names that a new one of ``owner`` may not have."""
    rows = kind.model.objects.filter(project=project, deleted_at__isnull=True)
    if kind.model.NAMES_PER_OWNER:
        rows = rows.filter(owner=owner)
    return frozenset(rows.exclude(desired=Desired.ABSENT).values_list("name", flat=True))


def values_of(row: Workload, *, private: bool) -> dict[str, Any]:
    """Return what a row says, as API and document say it; attachments by name."""
    raise NotImplementedError


def offers_for(
    who: Principal, project: Project, kind: Kind, row: Workload | None = None
) -> dict[str, list[tuple[str, Any]]]:
    """Return word and label of what exists for fields that name things (``work.ui.forms``).

    A volume is offered twice, by its uid and by ``uid:ro``.
    """
    raise NotImplementedError


def form_values(row: Workload) -> dict[str, Any]:
    """Return what a row says for a form of its owner: attachments by the words of the offers."""
    raise NotImplementedError
