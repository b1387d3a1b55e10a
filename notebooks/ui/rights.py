"""What somebody may still do with a workspace of one's own.

Whose role was lowered to viewer keeps what he has, but may only stop and delete it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import OuterRef, Subquery

from projects.access import Permission, permissions_for
from projects.choices import Role
from projects.models import Membership
from runtime.protocol import Desired

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet

    from accounts.principal import Principal
    from notebooks.models import Workspace


def may_keep(who: Principal, row: Workspace, role: Role | None) -> bool:
    """Whether it is one's own and one may have workspaces in its project, by one's role there."""
    own = row.owner_id == who.user.pk and row.desired != Desired.ABSENT
    return own and Permission.WORKSPACE_CREATE in permissions_for(who, row.project, role)


def with_roles(who: Principal, rows: QuerySet[Workspace]) -> QuerySet[Workspace]:
    """Bring one's role in the project of each along, so that it costs no question of its own."""
    mine = Membership.objects.filter(project=OuterRef("project_id"), user=who.user)
    return rows.annotate(own_role=Subquery(mine.values("role")[:1]))


def startable(who: Principal, rows: Sequence[Workspace]) -> frozenset[int]:
    """Return the keys of those ``with_roles`` that one may start again where they are over."""
    return frozenset(
        row.pk for row in rows if not row.project.archived_at and may_keep(who, row, _role(row))
    )


def _role(row: Workspace) -> Role | None:
    word = getattr(row, "own_role", None)
    return Role(word) if word else None
