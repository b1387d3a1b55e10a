"""Changing what a workload is. What runs to its end changes when it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.usable import launch_check
from common.errors import Conflict
from events import services as events
from runtime.protocol import Desired
from work import kinds
from work.attached import ATTACHED
from work.services.attachments import attach, check_still_usable
from work.services.base import changed, lock, own, require_free, step
from work.services.launch import begin_launch, digest_of, reserve, workload_start
from work.services.resolve import PIN, edited, pinned_anew
from work.services.tickets import ticket_note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accounts.principal import Principal
    from work.kinds import Kind
    from work.models import Workload
    from work.services.resolve import Resolved


def workload_edit(  # noqa: PLR0913 - all by name
    *,
    principal: Principal,
    row: Workload,
    said: Mapping[str, Any],
    start: bool = False,
    anew: bool = False,
    newest_image: bool = False,
    pin: str | None = None,
    check: Callable[[Any], None] | None = None,
    by_kind: bool = False,
) -> Any:
    """Change what ``said`` says otherwise; a running one restarts when its process must.

    ``start``: so does one that ended, but not one that has succeeded and is as it was, unless it
    shall begin ``anew`` in any case.
    ``newest_image``: pin what the name of its image means now; ``pin``: this digest, of the image
    that is said. ``check`` looks at the locked row first and raises where it is another one than
    was read. ``by_kind``: its kind goes on with it, and refuses itself nothing. Never inside a
    transaction: a registry may be asked.
    """
    own(principal, row)
    kind = kinds.kind_of(row.kind)
    rows = kind.model.objects.select_related("project", "owner", *kind.related)
    before = rows.get(pk=row.pk)
    if newest_image and said.get("image") is None:
        # said, so that the digest never goes to what another edit wrote meanwhile
        said = {**said, "image": getattr(before, "image", None)}
    found = edited(principal=principal, row=before, kind=kind, said=said)
    if kind.look_first is not None:
        kind.look_first(principal, before, found.fields)
    digest = getattr(before, "image_digest", "") if pin is None else pin
    if pin is None and (newest_image or "image" in found.fields):
        digest = digest_of(principal, kind, found.row, newest=newest_image)
    with transaction.atomic():
        locked = lock(row)
        if check is not None:
            check(locked)
        repins = newest_image or pin is not None
        after, is_changed = _edit(principal, locked, said, digest, repins=repins, by_kind=by_kind)
        if anew or (start and kind.starts(after, is_changed=is_changed)):
            return workload_start(principal=principal, row=after)
        return after


def image_renew(*, principal: Principal, row: Workload) -> Any:
    """Pin what the image's tag means now. What is wanted to run starts with it, failed or not."""
    wanted = row.desired == Desired.RUNNING
    return workload_edit(principal=principal, row=row, said={}, newest_image=True, start=wanted)


def _edit(
    principal: Principal,
    row: Any,
    said: Mapping[str, Any],
    digest: str,
    *,
    repins: bool,
    by_kind: bool,
) -> tuple[Any, bool]:
    kind = kinds.kind_of(row.kind)
    found = edited(principal=principal, row=row, kind=kind, said=said)
    if repins and digest != row.image_digest:
        found = pinned_anew(found)
    if not found.fields:
        return row, False
    if kind.change is not None:
        kind.change(row, found.row, found.fields)
    require_editable(kind, row, found, by_kind=by_kind)
    waits = row.is_waiting or row.is_held_back
    after, restarts = found.row, needs_restart(kind, row, found)
    if "name" in found.fields:
        require_free(row.project, row.owner, kind, after.name)
    if set(ATTACHED) & set(found.fields):
        attach(after, found.attached)
    if {"image", PIN} & set(found.fields):
        kind.pin(after, digest)
    if restarts:
        launch_check(row.cluster_key, row.project.uid)
        check_still_usable(principal, after)
        begin_launch(kind, after)
    else:
        after.generation += 1
        if row.is_ended and row.is_seen:  # the engine looks at what it says when it starts
            after.observed_generation = after.generation
    after.save()
    if restarts:
        reserve(principal, after, found.amounts)
        step(after, "accepted", ticket_note(after) if waits else _("New settings: it restarts."))
    events.record(
        actor=principal,
        verb=f"{kind.word}.edited",
        target=after,
        project_uid=row.project.uid,
        data={"fields": list(found.fields), "restarts": restarts},
    )
    changed(after)
    return after, True


def require_editable(kind: Kind, row: Workload, found: Resolved, *, by_kind: bool = False) -> None:
    """Raise where what runs to its end would run as something else, or its kind refuses it."""
    if kind.once and found.restarting and not (row.is_ended or _begins_anew(kind, row)):
        raise Conflict(
            _("It has not ended: what it runs can be changed for its next start only."),
            code="running",
        )
    if kind.check_edit is not None and not by_kind:
        kind.check_edit(row, found.row, found.fields)


def needs_restart(kind: Kind, row: Workload, found: Resolved) -> bool:
    if not row.is_on_its_way or not found.restarting:
        return False
    return not kind.once or _begins_anew(kind, row)


def _begins_anew(kind: Kind, row: Workload) -> bool:
    """Whether what runs to its end, and runs nowhere yet, can be another one."""
    return (row.is_waiting or row.is_held_back) and kind.start is None
