"""Changing what runs: stop, edit, extend, delete."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.usable import launch_check
from common.clock import now
from common.errors import Conflict, Invalid
from events import services as events
from notebooks import selectors
from notebooks.choices import StopReason
from notebooks.models import Workspace
from notebooks.notices import tell_stopped
from notebooks.services.base import changed, lock, own, require_end, step
from notebooks.services.image_digest import pins
from notebooks.services.launch import begin_launch, reserve
from notebooks.services.resolve import changed_fields, columns_of, edited, spec_of
from notebooks.spec import RESTARTING
from projects.others import reason_for, tell_owner
from runtime.protocol import Desired
from work.attached import ATTACHED, attached_to
from work.fields import Count
from work.services.attachments import (
    attach,
    attached_wanted,
    changed_attachments,
    check_still_usable,
)
from work.standard_fields import NAME

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal
    from notebooks.spec import Wanted
    from projects.models import Project

DEFAULT_EXTENSION = 60
_EXTENSION = Count(name="minutes", label="", low=1, high=60 * 24 * 7)
PINNED = frozenset({"image", "image_digest"})


@transaction.atomic
def workspace_stop(*, principal: Principal, workspace: Workspace, said: str = "") -> Workspace:
    """Ask it to stop. Files, installed packages, address and settings stay; GPUs go back.

    ``said`` is why, where it is somebody else's (``projects.others``).
    """
    require_end(principal, workspace)
    row = lock(workspace)
    said = reason_for(principal, row.owner, said)
    if row.owner_id == principal.user.pk:
        reason = StopReason.USER
    elif principal.is_operator:
        reason = StopReason.OPERATOR
    else:
        reason = StopReason.MANAGER
    request_stop(row, reason=reason, actor=principal, said=said)
    return row


def request_stop(
    row: Workspace, *, reason: StopReason, actor: Principal | None, said: str = ""
) -> bool:
    """Write the intent to stop; False when it was written before."""
    if row.desired != Desired.RUNNING:
        return False
    row.desired = Desired.STOPPED
    row.generation += 1
    row.stop_reason = reason
    row.stop_requested_at = now()
    row.ends_at = None
    row.save(
        update_fields=[
            *("desired", "generation", "stop_reason", "stop_requested_at", "ends_at"),
            "updated_at",
        ]
    )
    step(row, "stop-asked", f"{reason.label}: {said}" if said else str(reason.label))
    events.record(
        actor=actor,
        verb="workspace.stopped",
        target=row,
        project_uid=row.project.uid,
        message=said,
        data={"reason": reason.value},
    )
    if reason != StopReason.USER and row.phase not in selectors.ENDED:
        tell_stopped(row, by=actor, said=said)
    changed(row)
    return True


@transaction.atomic
def workspaces_stop_for(
    *,
    reason: StopReason,
    project: Project | None = None,
    owner: User | None = None,
    actor: Principal | None = None,
) -> int:
    """Stop all of a project, of a person, or of a person in a project. No right is checked:
    the caller is a service that already decided (archive, disabled account, lost membership).
    """
    rows = Workspace.objects.select_for_update(of=("self",)).select_related("project", "owner")
    rows = rows.filter(deleted_at__isnull=True, desired=Desired.RUNNING)
    if project is not None:
        rows = rows.filter(project=project)
    if owner is not None:
        rows = rows.filter(owner=owner)
    return sum(request_stop(row, reason=reason, actor=actor) for row in rows)


@transaction.atomic
def workspace_edit(
    *, principal: Principal, workspace: Workspace, wanted: Wanted, digest: str = ""
) -> Workspace:
    """Change name, size, environment or limit; a running one restarts when its process must.

    ``digest``: what ``pinning.digest_edited`` said before the transaction.
    """
    own(principal, workspace)
    row = lock(workspace)
    before, placed = spec_of(row), edited(row, wanted)
    after = placed.spec
    renamed = _rename(row, wanted)
    had = attached_to(row)
    gets = attached_wanted(
        principal=principal,
        project=row.project,
        cluster_key=row.cluster_key,
        said=wanted.given(),
        before=had,
    )
    attachments = changed_attachments(had, gets)
    columns = changed_fields(before, after)
    fields = [*columns, *attachments, *pins(row, wanted, columns, digest)]
    if not fields and not renamed:
        return row
    for field in columns:
        setattr(row, field, columns_of(after)[field])
    if attachments:
        attach(row, gets)
    if PINNED & set(fields):
        row.image_digest, row.image_pinned_at = digest, now() if digest else None
    if "time_limit_minutes" in fields:
        set_end(row)
    restarts = needs_restart(row, fields)
    if restarts:
        launch_check(row.cluster_key, row.project.uid)
        check_still_usable(principal, row)
        begin_launch(row)
    else:
        row.generation += 1
    row.save()
    if row.is_on_its_way and RESTARTING & set(fields):
        reserve(principal, row, placed)
    if restarts:
        step(row, "accepted", _("New settings: it restarts."))
    events.record(
        actor=principal,
        verb="workspace.edited",
        target=row,
        project_uid=row.project.uid,
        data={"fields": [*fields, *(["name"] if renamed else [])], "restarts": restarts},
    )
    changed(row)
    return row


def needs_restart(row: Workspace, fields: list[str]) -> bool:
    return row.is_on_its_way and bool((RESTARTING | PINNED | set(ATTACHED)) & set(fields))


def _rename(row: Workspace, wanted: Wanted) -> bool:
    if wanted.name is None:
        return False
    name = NAME.clean(wanted.name)
    if name == row.name:
        return False
    if name in selectors.names_taken(row.project, row.owner):
        message = _("You already have a workspace of that name in this project.")
        raise Invalid(message, code="name-taken", fields={"name": [message]})
    row.name = name
    return True


def set_end(row: Workspace) -> None:
    """Recompute when the time limit strikes; the caller saves."""
    if row.ready_at is None or row.time_limit_minutes is None or row.desired != Desired.RUNNING:
        row.ends_at = None
        return
    minutes = row.time_limit_minutes + row.extended_minutes
    row.ends_at = row.ready_at + timedelta(minutes=minutes)
    row.warned_at = None


@transaction.atomic
def workspace_extend(
    *, principal: Principal, workspace: Workspace, minutes: int = DEFAULT_EXTENSION
) -> Workspace:
    """Move the end of a running workspace, as far as its preset allows."""
    own(principal, workspace)
    row = lock(workspace)
    _EXTENSION.whole(minutes)
    if row.time_limit_minutes is None:
        raise Conflict(_("It has no time limit: there is nothing to extend."), code="no-limit")
    if not row.is_on_its_way:
        raise Conflict(_("It does not run: resume it first."), code="not-running")
    left = extension_left(row)
    if left is not None and minutes > left:
        raise Conflict(
            _("It can be extended by at most %(left)d minutes more.") % {"left": left},
            code="extension-limit",
            extra={"left_minutes": left},
        )
    row.extended_minutes += minutes
    row.generation += 1
    set_end(row)
    row.save(update_fields=["extended_minutes", "generation", "ends_at", "warned_at", "updated_at"])
    events.record(
        actor=principal,
        verb="workspace.extended",
        target=row,
        project_uid=row.project.uid,
        data={"minutes": minutes},
    )
    changed(row)
    return row


def extension_left(row: Workspace) -> int | None:
    """Return the minutes by which the end may still move; None: as far as one likes."""
    longest = row.preset.max_time_limit_minutes if row.preset else None
    if longest is None or row.time_limit_minutes is None:
        return None
    return max(0, longest - row.time_limit_minutes - row.extended_minutes)


@transaction.atomic
def workspace_delete(
    *, principal: Principal, workspace: Workspace, typed_name: str | None = None, said: str = ""
) -> Workspace:
    """Ask for its removal. ``typed_name`` None: the door itself is explicit (API, CLI).

    ``said`` is why, where it is somebody else's (``projects.others``).
    """
    require_end(principal, workspace)
    row = (
        Workspace.objects.select_for_update(of=("self",))
        .select_related("project", "owner")
        .get(pk=workspace.pk)
    )
    if typed_name is not None and typed_name.strip() != row.name:
        message = _("This is not its name. Nothing was deleted.")
        raise Invalid(message, fields={"typed_name": [message]})
    said = reason_for(principal, row.owner, said)
    if request_delete(row, actor=principal, said=said):
        tell_owner(principal, row.owner, "work.deleted", row, said)
    return row


def request_delete(row: Workspace, *, actor: Principal | None, said: str = "") -> bool:
    """Write the intent to remove; False when it was written before."""
    if row.desired == Desired.ABSENT:
        return False
    row.desired = Desired.ABSENT
    row.generation += 1
    row.ends_at = None
    row.stop_requested_at = row.stop_requested_at or now()
    row.save(update_fields=["desired", "generation", "ends_at", "stop_requested_at", "updated_at"])
    row.shares.all().delete()
    events.record(
        actor=actor,
        verb="workspace.deleted",
        target=row,
        project_uid=row.project.uid,
        message=said,
    )
    changed(row)
    return True


@transaction.atomic
def workspaces_request_delete(*, actor: Principal | None, project: Project) -> int:
    """Ask for the removal of all workspaces of a project that is being deleted."""
    rows = (
        Workspace.objects.select_for_update(of=("self",))
        .select_related("project", "owner")
        .filter(project=project, deleted_at__isnull=True)
    )
    return sum(request_delete(row, actor=actor) for row in rows)
