"""Deleting, undone at will at first, and copies of a volume; never while somebody uses it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Conflict, Forbidden, wrong
from events import services as events
from projects.access import Permission, require
from projects.others import reason_for, tell_owner
from projects.services.life import require_active
from runtime.hints import hint
from runtime.protocol import Desired, Phase
from volumes.choices import TransferState, VolumeKind
from volumes.models import MIB, Volume, VolumeSnapshot, VolumeTransfer
from volumes.selectors import can_snapshot, require_usable
from volumes.services.base import (
    lock,
    payer_of,
    publish,
    require_changer,
    require_kind,
    require_typed,
    require_unused,
    reserve,
    save,
    tell,
)
from volumes.services.create import clean_description, clean_name, name_taken

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


_NAME = re.compile(r"\A[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?\Z")
MOST = 20  # of one volume


def snapshot_create(
    *, principal: Principal, volume: Volume, name: str = "", description: str = ""
) -> VolumeSnapshot:
    """Keep the volume as it is now. Its size counts as storage, like a volume's."""
    try:
        with transaction.atomic():
            return _create(principal, volume, name, description)
    except IntegrityError as error:
        raise _taken(name) from error


@transaction.atomic
def snapshot_restore(
    *, principal: Principal, snapshot: VolumeSnapshot, typed_name: str | None = None
) -> Volume:
    """Put a copy in place of what the volume holds now, which is lost. Nothing may use it."""
    row = lock(snapshot.volume)
    _require_keeper(principal, row)
    require_usable(row)
    copy = VolumeSnapshot.objects.select_for_update().get(pk=snapshot.pk)
    if copy.phase != Phase.RUNNING or copy.desired == Desired.ABSENT:
        raise Conflict(_("This snapshot is not ready."), code="snapshot-not-ready")
    require_typed(typed_name, row.name)
    require_unused(row)
    row.restore_from = copy
    row.restore_serial += 1
    save(row, "restore_from", "restore_serial")
    tell(principal, "volume.restore-asked", row, message=copy.name)
    return row


@transaction.atomic
def snapshot_delete(*, principal: Principal, snapshot: VolumeSnapshot) -> VolumeSnapshot:
    """Remove a copy; the volume stays as it is."""
    row = lock(snapshot.volume)
    _require_keeper(principal, row)
    copy = VolumeSnapshot.objects.select_for_update().get(pk=snapshot.pk)
    if copy.desired == Desired.ABSENT:
        return copy
    if row.is_restoring and row.restore_from_id == copy.pk:
        raise Conflict(_("The volume is being restored from it."), code="volume-restoring")
    snapshot_unwant(copy)
    _tell(principal, "snapshot.deleted", row, copy)
    return copy


def _create(principal: Principal, volume: Volume, name: str, description: str) -> VolumeSnapshot:
    row = lock(volume)
    _require_keeper(principal, row)
    require_active(row.project)
    require_usable(row)
    if not can_snapshot(row):
        raise Conflict(_("Volumes of its class can't keep snapshots here."), code="no-snapshots")
    live = set(
        VolumeSnapshot.objects.filter(volume=row, deleted_at__isnull=True).values_list(
            "name", flat=True
        )
    )
    if len(live) >= MOST:
        said = _("A volume keeps at most %(n)d snapshots. Delete one first.") % {"n": MOST}
        raise Conflict(said, code="too-many-snapshots")
    copy = VolumeSnapshot.objects.create(
        volume=row,
        cluster_key=row.cluster_key,
        name=_name(name, live),
        description=clean_description(description)[:300],
        created_by=principal.user,
        phase_since=now(),
    )
    reserve(
        principal,
        project=row.project,
        payer=payer_of(row) or principal.user,
        uid=copy.uid,
        size_mib=_size_of(row),
    )
    _tell(principal, "snapshot.created", row, copy)
    return copy


def _size_of(row: Volume) -> int:
    """Return the MiB that a copy takes at most: what is used, else the whole size."""
    if row.used_bytes is not None:
        return -(-row.used_bytes // MIB)
    return row.size_limit_mib or 0


def _name(given: str, live: set[str]) -> str:
    if not given.strip():
        base = now().strftime("%Y-%m-%d-%H%M")
        return next(n for n in (base, *(f"{base}-{i}" for i in range(2, 99))) if n not in live)
    name = given.strip()
    if not _NAME.match(name):
        said = _("Small letters, digits, “-”, “_” and “.”; a letter or digit first; at most 63.")
        raise wrong("name", said)
    if name in live:
        raise _taken(name)
    return name


def _taken(name: str) -> Conflict:
    said = _("There is a snapshot called “%(name)s” already.") % {"name": name}
    return Conflict(said, code="name-taken", fields={"name": [said]})


def _require_keeper(principal: Principal, volume: Volume) -> None:
    """A home's copies are its owner's; others are their maker's and the managers'."""
    if volume.kind != VolumeKind.HOME:
        require_changer(principal, volume)
    elif volume.owner_id != principal.user.pk:
        raise Forbidden(_("A home is private: only its owner may do this."))


def _tell(principal: Principal, verb: str, row: Volume, copy: VolumeSnapshot) -> None:
    events.record(
        actor=principal,
        verb=verb,
        target=row,
        project_uid=row.project.uid,
        message=copy.name,
        data={"snapshot": str(copy.uid)},
    )
    hint(copy)
    publish(row)
