"""What every write to a workspace shares: right, lock, timeline, wake-up, news."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Conflict, Forbidden
from notebooks.models import Workspace
from projects.access import Permission, denial, permissions_of, require
from runtime.bus import publish
from runtime.hints import hint, wake
from runtime.protocol import Desired
from work.models import Step

if TYPE_CHECKING:
    from accounts.principal import Principal


def own(principal: Principal, workspace: Workspace) -> None:
    """Raise unless ``principal`` owns the workspace and may have workspaces."""
    require(principal, workspace.project, Permission.WORKSPACE_READ)
    if workspace.owner_id != principal.user.pk:
        raise Forbidden(_("Only its owner may do this with a workspace."))
    require(principal, workspace.project, Permission.WORKSPACE_CREATE)


def may_end(principal: Principal, workspace: Workspace) -> bool:
    """Whether ``principal`` may stop and delete it: the owner always, managers too.

    A member whose role was lowered to viewer must still be able to give back what he holds.
    """
    granted = permissions_of(principal, workspace.project)
    if Permission.WORKSPACE_MANAGE in granted:
        return True
    owns = workspace.owner_id == principal.user.pk
    return (
        owns
        and Permission.WORKSPACE_READ in granted
        and principal.allows_scope(Permission.WORKSPACE_CREATE)
    )


def require_end(principal: Principal, workspace: Workspace) -> None:
    require(principal, workspace.project, Permission.WORKSPACE_READ)
    if not may_end(principal, workspace):
        raise Forbidden(denial(Permission.WORKSPACE_MANAGE))


def lock(workspace: Workspace) -> Workspace:
    """Return the row as it is now, locked; Conflict when it is being deleted."""
    row = (
        Workspace.objects.select_for_update(of=("self",))
        .select_related("project", "owner", "preset", "home")
        .get(pk=workspace.pk)
    )
    if row.desired == Desired.ABSENT or row.deleted_at is not None:
        raise Conflict(_("This workspace is being deleted."), code="deleting")
    return row


def step(row: Workspace, word: str, message: str = "") -> None:
    Step.objects.create(workload=row, launch=row.launch, word=word, at=now(), message=message[:300])


def topics(row: Workspace) -> list[str]:
    return [
        f"workspace:{row.uid}",
        f"project:{row.project.uid}",
        f"user:{row.owner.uid}",
        "operators",
    ]


def changed(row: Workspace, *, is_new: bool = False) -> None:
    """Wake the engine and tell open pages, both after commit."""
    wake(row) if is_new else hint(row)
    publish(topics(row), {"kind": row.KIND, "id": row.short_id})
