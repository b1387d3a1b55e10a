"""Deleting: first undone at will, then carried out, and never while somebody uses it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Conflict
from projects.access import Permission, require
from projects.others import reason_for, tell_owner
from runtime.hints import hint
from runtime.protocol import Desired, Phase
from volumes.choices import TransferState, VolumeKind
from volumes.models import Volume, VolumeSnapshot, VolumeTransfer
from volumes.selectors import require_usable
from volumes.services.base import (
    lock,
    payer_of,
    require_changer,
    require_kind,
    require_typed,
    require_unused,
    save,
    tell,
)
from volumes.services.create import clean_name, name_taken

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project

_ASKED = ("desired", "delete_requested_at", "delete_after")


@transaction.atomic
def volume_delete(
    *, principal: Principal, volume: Volume, typed_name: str | None = None, said: str = ""
) -> Volume:
    """Ask for its removal after the days of undo, of a cache at once: it can be loaded again.

    Refused while anything has it mounted. ``said`` is why, where somebody else made it
    (``projects.others``).
    """
    row = lock(volume)
    require_changer(principal, row)
    require_kind(row, VolumeKind.DATA)
    if row.is_being_deleted:
        return row
    require_usable(row)
    require_typed(typed_name, row.name)
    require_unused(row)
    said = reason_for(principal, payer_of(row), said)
    row.desired = Desired.ABSENT
    row.delete_requested_at = now()
    if not row.is_cache:
        row.delete_after = now() + timedelta(days=settings.BERTH_VOLUME_UNDO_DAYS)
    save(row, *_ASKED)
    transfers_end(row)
    tell(
        principal,
        "volume.delete-requested",
        row,
        message=said,
        data={"delete_after": row.delete_after.isoformat() if row.delete_after else None},
    )
    tell_owner(principal, payer_of(row), "work.deleted", row, said)
    return row


def volume_bring_back(*, principal: Principal, volume: Volume, name: str | None = None) -> Volume:
    """Undo a deletion while that is possible; under another name when its own is taken."""
    wanted = clean_name(name) if name else ""
    try:
        with transaction.atomic():
            return _bring_back(principal, volume, wanted)
    except IntegrityError as error:
        raise name_taken(wanted or volume.name) from error


def _bring_back(principal: Principal, volume: Volume, name: str) -> Volume:
    row = lock(volume)
    require_changer(principal, row)
    if not row.is_being_deleted:
        return row
    if not row.can_be_brought_back or row.phase == Phase.DELETING:
        raise Conflict(
            _("“%(name)s” can't be brought back any more.") % {"name": row.name},
            code="volume-undo-over",
        )
    row.desired = Desired.RUNNING
    row.delete_requested_at = row.delete_after = None
    row.name = name or row.name
    save(row, *_ASKED, "name")
    for copy in VolumeSnapshot.objects.filter(volume=row, phase=Phase.PENDING, deleted_at=None):
        hint(copy)  # it sleeps while its volume is on its way out
    tell(principal, "volume.brought-back", row)
    return row


@transaction.atomic
def volume_purge(
    *, principal: Principal, volume: Volume, typed_name: str | None = None, said: str = ""
) -> Volume:
    """Remove it with its files now: nothing brings it back. For those who manage volumes."""
    row = lock(volume)
    require(principal, row.project, Permission.VOLUME_MANAGE)
    require_kind(row, VolumeKind.DATA)
    if not row.is_being_deleted:
        require_usable(row)
    require_typed(typed_name, row.name)
    require_unused(row)
    said = reason_for(principal, payer_of(row), said)
    row.desired = Desired.ABSENT
    row.delete_requested_at = row.delete_requested_at or now()
    row.delete_after = None
    save(row, *_ASKED)
    transfers_end(row)
    tell(principal, "volume.purged", row, message=said)
    tell_owner(principal, payer_of(row), "work.deleted", row, said)
    return row


@transaction.atomic
def volumes_request_delete(*, actor: Principal | None, project: Project) -> int:
    """Ask for the removal of every volume of a project that is being deleted, at once."""
    rows = Volume.objects.select_for_update(of=("self",)).filter(
        project=project, deleted_at__isnull=True
    )
    wanted = rows.exclude(desired=Desired.ABSENT, delete_after__isnull=True)
    asked = list(wanted.select_related("project", "owner"))
    for row in asked:
        row.desired = Desired.ABSENT
        row.delete_requested_at = row.delete_requested_at or now()
        row.delete_after = None
        save(row, *_ASKED)
        transfers_end(row)
        tell(actor, "volume.delete-requested", row)
    return len(asked)


def transfers_end(row: Volume) -> None:
    """Withdraw what was offered of it and not taken yet."""
    VolumeTransfer.objects.filter(volume=row, state=TransferState.ASKED).update(
        state=TransferState.WITHDRAWN, decided_at=now()
    )


@transaction.atomic
def snapshots_remove_with(volume: Volume) -> int:
    """Ask for the removal of what is left of a volume's copies; the engine asks before its own.

    Returns how many are still there.
    """
    rows = VolumeSnapshot.objects.filter(volume=volume, deleted_at__isnull=True)
    for row in rows.exclude(desired=Desired.ABSENT):
        snapshot_unwant(row)
    return rows.count()


def snapshot_unwant(row: VolumeSnapshot) -> None:
    row.desired = Desired.ABSENT
    row.generation += 1
    row.save(update_fields=["desired", "generation", "updated_at"])
    hint(row)
