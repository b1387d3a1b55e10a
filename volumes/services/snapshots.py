"""Copies of a volume at one moment: making, putting back, removing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Conflict, Forbidden, wrong
from events import services as events
from projects.services import require_active
from runtime.hints import hint
from runtime.protocol import Desired, Phase
from volumes.choices import VolumeKind
from volumes.models import MIB, Volume, VolumeSnapshot
from volumes.selectors import can_snapshot, require_usable
from volumes.services.base import (
    lock,
    payer_of,
    publish,
    require_changer,
    require_typed,
    require_unused,
    reserve,
    save,
    tell,
)
from volumes.services.create import clean_description
from volumes.services.removal import snapshot_unwant

if TYPE_CHECKING:
    from accounts.principal import Principal

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
