"""Letting a member of the project open work of somebody else, and taking that back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _

from common.errors import wrong
from events import services as events
from hubapi import services as hub
from notifications.services import notify
from projects.models import Membership
from work import kinds
from work.fields import is_storable
from work.models import Share
from work.services.base import changed, lock, own

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from accounts.models import User
    from accounts.principal import Principal
    from projects.models import Project
    from work.models import Workload


@transaction.atomic
def workload_share(*, principal: Principal, row: Workload, username: str) -> Share:
    """Let a member in. They get all that the owner has inside: files, environment, terminal."""
    own(principal, row)
    found = lock(row)
    username = username.strip() if is_storable(username) else ""
    member = (
        Membership.objects.select_related("user")
        .filter(project=found.project, user__username=username, user__is_active=True)
        .first()
    )
    if member is None:  # the same for "no such person" and "not in this project"
        raise wrong("username", _("No member of the project has this name."))
    if member.user_id == found.owner_id:
        raise wrong("username", _("It is the owner's already."))
    share, made = Share.objects.get_or_create(
        workload=found, user=member.user, defaults={"created_by": principal.user}
    )
    if made:
        # Whoever is let in reads what its owner's processes in the project have.
        mine = type(found).objects.filter(project=found.project_id, owner=found.owner_id)
        hub.revoke_command_lines(mine.values_list("uid", "launch"))
        _record(found, "shared", member.user, actor=principal)
        notify(
            users=[member.user],
            kind=f"{found.kind}.shared",
            params={"name": found.name, "who": principal.user.label},
            url=found.get_absolute_url(),
            key=str(found.uid),
            project_id=found.project_id,
        )
        changed(found)
    return share


@transaction.atomic
def workload_unshare(*, principal: Principal, row: Workload, username: str) -> bool:
    """Take a visitor's access back; their open windows are cut within seconds."""
    own(principal, row)
    found = lock(row)
    if not is_storable(username):
        return False
    share = found.shares.select_related("user").filter(user__username=username.strip()).first()
    if share is None:
        return False
    _revoke(share, found, actor=principal)
    return True


@transaction.atomic
def shares_revoke_for(
    *, user: User, project: Project | None = None, actor: Principal | None = None
) -> int:
    """Take away every access of ``user`` to work of others (they left, or were disabled)."""
    shares = Share.objects.filter(user=user)
    if project is not None:
        shares = shares.filter(workload__project=project)
    return _revoke_all(shares, actor=actor)


@transaction.atomic
def shares_cut_for(*, owner: User, project: Project, actor: Principal | None = None) -> int:
    """Take away what ``owner`` shared in a project that they left."""
    shares = Share.objects.filter(workload__owner=owner, workload__project=project)
    return _revoke_all(shares, actor=actor)


def _revoke_all(shares: QuerySet[Share], *, actor: Principal | None) -> int:
    done = 0
    for kind in (one for one in kinds.kinds() if one.shared):
        found = list(shares.filter(workload__kind=kind.word).select_related("user"))
        rows = kind.model.objects.select_related("project", "owner")
        of = rows.in_bulk([share.workload_id for share in found])
        for share in found:
            _revoke(share, of[share.workload_id], actor=actor)
        done += len(found)
    return done


def _revoke(share: Share, row: Any, *, actor: Principal | None) -> None:
    """End the visitor's tokens in this transaction; sockets are cut after it."""
    user = share.user
    share.delete()
    hub.revoke_visitor(row.uid, user)
    _record(row, "unshared", user, actor=actor)
    changed(row)


def _record(row: Any, act: str, user: User, *, actor: Principal | None) -> None:
    events.record(
        actor=actor,
        verb=f"{row.kind}.{act}",
        target=row,
        project_uid=row.project.uid,
        data={"with": user.username},
    )
