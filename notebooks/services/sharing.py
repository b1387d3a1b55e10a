"""Letting a member of the project open a workspace, and taking that back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils.translation import gettext as _

from common.errors import Invalid, wrong
from events import services as events
from hubapi import services as hub
from notebooks.models import Workspace
from notebooks.notices import tell_shared
from projects.models import Membership
from work.fields import is_storable
from work.models import Share
from work.services.base import changed, lock, own

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from accounts.models import User
    from accounts.principal import Principal
    from projects.models import Project


@transaction.atomic
def workspace_share(*, principal: Principal, workspace: Workspace, username: str) -> Share:
    """Let a member in. He gets all that the owner has inside: files, environment, terminal."""
    own(principal, workspace)
    row = lock(workspace)
    username = username.strip() if is_storable(username) else ""
    member = (
        Membership.objects.select_related("user")
        .filter(project=row.project, user__username=username, user__is_active=True)
        .first()
    )
    if member is None:  # the same for "no such person" and "not in this project"
        raise _refused(_("No member of the project has this name."))
    if member.user_id == row.owner_id:
        raise _refused(_("It is the owner's already."))
    share, made = Share.objects.get_or_create(
        workload=row, user=member.user, defaults={"created_by": principal.user}
    )
    if made:
        events.record(
            actor=principal,
            verb="workspace.shared",
            target=row,
            project_uid=row.project.uid,
            data={"with": member.user.username},
        )
        tell_shared(row, by=principal, user=member.user)
        changed(row)
    return share


@transaction.atomic
def workspace_unshare(*, principal: Principal, workspace: Workspace, username: str) -> bool:
    """Take a visitor's access back; his open windows are cut within seconds."""
    own(principal, workspace)
    row = lock(workspace)
    if not is_storable(username):
        return False
    share = row.shares.select_related("user").filter(user__username=username.strip()).first()
    if share is None:
        return False
    _revoke(share, row, actor=principal)
    return True


@transaction.atomic
def shares_revoke_for(
    *, user: User, project: Project | None = None, actor: Principal | None = None
) -> int:
    """Take away every access of ``user`` to workspaces of others (he left, or was disabled)."""
    shares = Share.objects.filter(user=user)
    if project is not None:
        shares = shares.filter(workload__project=project)
    return _revoke_all(shares, actor=actor)


@transaction.atomic
def shares_cut_for(*, owner: User, project: Project, actor: Principal | None = None) -> int:
    """Take away what ``owner`` shared in a project that he left."""
    shares = Share.objects.filter(workload__owner=owner, workload__project=project)
    return _revoke_all(shares, actor=actor)


def _revoke_all(shares: QuerySet[Share], *, actor: Principal | None) -> int:
    found = list(shares.filter(workload__kind=Workspace.KIND).select_related("user"))
    rows = Workspace.objects.select_related("project", "owner")
    of = rows.in_bulk([share.workload_id for share in found])
    for share in found:
        _revoke(share, of[share.workload_id], actor=actor)
    return len(found)


def _revoke(share: Share, row: Workspace, *, actor: Principal | None) -> None:
    user = share.user
    share.delete()
    visitor_cut(row, user)
    events.record(
        actor=actor,
        verb="workspace.unshared",
        target=row,
        project_uid=row.project.uid,
        data={"with": user.username},
    )
    changed(row)


def visitor_cut(row: Workspace, user: User) -> None:
    """End the visitor's tokens in this transaction; sockets are cut after it."""
    hub.revoke_visitor(row.uid, user)


def _refused(message: str) -> Invalid:
    return wrong("username", message)
