"""Changing a volume: its name, what is said of it, who writes, how large it is."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from common.errors import Conflict, Forbidden, Invalid, wrong
from projects.access import Permission, denial, permissions_of
from quotas import services as quotas
from quotas.choices import STORAGE_MIB, words
from volumes import backing
from volumes.choices import VolumeKind
from volumes.models import MIB, Volume
from volumes.selectors import can_grow, require_usable
from volumes.services.base import (
    lock,
    payer_of,
    require_changer,
    require_unused,
    reserve,
    save,
    tell,
)
from volumes.services.create import (
    clean_description,
    clean_name,
    clean_policy,
    clean_size,
    name_taken,
)

if TYPE_CHECKING:
    from accounts.principal import Principal


COLUMNS = ("name", "description", "write_policy", "size_limit_mib")  # what an edit may change


@dataclass(frozen=True)
class Changes:
    """What is to be different; None: stays as it is."""

    name: str | None = None
    description: str | None = None
    write_policy: str | None = None
    size_limit_mib: int | None = None
    no_limit: bool = False  # take the size of a home or shared volume away

    @property
    def said(self) -> list[str]:
        return [f.name for f in fields(self) if getattr(self, f.name) not in {None, False}]


def volume_edit(*, principal: Principal, volume: Volume, changes: Changes) -> Volume:
    """Change what ``changes`` says, all of it or nothing."""
    try:
        with transaction.atomic():
            return _edit(principal, volume, changes)
    except IntegrityError as error:
        raise name_taken(changes.name or volume.name) from error


def _edit(principal: Principal, volume: Volume, changes: Changes) -> Volume:
    row = lock(volume)
    before = {name: getattr(row, name) for name in COLUMNS}
    _check(principal, row, changes)
    if row.size_limit_mib != before["size_limit_mib"]:
        payer = payer_of(row) or principal.user
        reserve(
            principal, project=row.project, payer=payer, uid=row.uid, size_mib=row.size_limit_mib
        )
    told = {name: getattr(row, name) for name in COLUMNS if getattr(row, name) != before[name]}
    if not told:
        return row
    if "size_limit_mib" in told:
        row.growth_refused = ""  # of an earlier wish
    save(row, *told, "growth_refused")
    verb = "volume.resized" if set(told) == {"size_limit_mib"} else "volume.changed"
    data = {name: {"from": before[name], "to": value} for name, value in told.items()}
    tell(principal, verb, row, data=data)
    return row


def check_edit(principal: Principal, volume: Volume, changes: Changes) -> Volume:
    """Return the row as an edit would leave it, or raise as it would. Writes nothing."""
    row = copy(volume)
    _check(principal, row, changes)
    return row


def _check(principal: Principal, row: Volume, changes: Changes) -> None:
    """Change the columns in memory; limits are asked by whoever writes them."""
    _require_right(principal, row, changes)
    require_usable(row)
    _change_words(row, changes)
    _change_size(row, changes)


def _require_right(principal: Principal, volume: Volume, changes: Changes) -> None:
    """Homes and shared volumes are changed by managers; others by their maker too."""
    if volume.kind == VolumeKind.DATA:
        require_changer(principal, volume)
    elif Permission.VOLUME_MANAGE not in permissions_of(principal, volume.project):
        raise Forbidden(denial(Permission.VOLUME_MANAGE))
    if volume.kind == VolumeKind.HOME and {"description", "write_policy"} & set(changes.said):
        raise Conflict(_("A home is its owner's; only its size can be set."), code="volume-kind")
    if volume.kind != VolumeKind.DATA and changes.name not in {None, volume.name}:
        raise Conflict(_("Homes and shared volumes keep their names."), code="volume-kind")


def _change_words(row: Volume, changes: Changes) -> None:
    if changes.name is not None and changes.name != row.name:
        name = clean_name(changes.name)
        require_unused(row)  # what runs sees it under the old name
        row.name = name
        if _is_taken(row):
            raise name_taken(name)
    if changes.description is not None:
        row.description = clean_description(changes.description)
    if changes.write_policy is not None:
        row.write_policy = clean_policy(changes.write_policy)


def _is_taken(row: Volume) -> bool:
    return (
        Volume.objects.filter(
            project=row.project,
            cluster_key=row.cluster_key,
            name=row.name,
            kind__in=[VolumeKind.DATA, VolumeKind.PROJECT],
            deleted_at__isnull=True,
            delete_requested_at__isnull=True,
        )
        .exclude(pk=row.pk)
        .exists()
    )


def _change_size(row: Volume, changes: Changes) -> None:
    if changes.no_limit:
        if row.kind == VolumeKind.DATA:
            raise _wrong(_("A volume has a size."))
        wanted = None
    elif changes.size_limit_mib is None:
        return
    else:
        wanted = clean_size(changes.size_limit_mib, row.volume_class)
    if wanted == row.size_limit_mib:
        return
    _require_possible(row, wanted)
    row.size_limit_mib = wanted


def _require_possible(row: Volume, wanted: int | None) -> None:
    """Growing where its storage can; shrinking not below what is used, and not everywhere."""
    if wanted is None:
        return
    before = row.size_limit_mib
    if row.used_bytes is not None and wanted * MIB < row.used_bytes:
        used = -(-row.used_bytes // MIB)
        raise _wrong(
            _("%(used)s of it are used. Delete files first.") % {"used": words("storage_mib", used)}
        )
    if before is None:
        return  # what its storage gave it is not known here
    if wanted < before and not _can_shrink(row, wanted):
        raise _wrong(_("Volumes of its class can only grow."))
    if wanted > before and not can_grow(row):
        raise _wrong(
            _(
                "Volumes of its class can't be made larger: the storage of the cluster does not"
                " allow it. Make a larger volume and copy the files into it, or ask an operator."
            )
        )


def _can_shrink(row: Volume, wanted: int) -> bool:
    """A wish that its storage has not fulfilled yet can be taken back everywhere."""
    if backing.can_shrink(row.backing_kind):
        return True
    return row.is_growing and bool(row.given_mib) and wanted >= (row.given_mib or 0)


def _wrong(message: str) -> Invalid:
    return wrong("size_limit_mib", message)


MAX_WHY = 400


@transaction.atomic
def growth_refused(*, volume: Volume, why: str, size_mib: int) -> None:
    """Take the wish back: the volume is as large as before, and counts as much; say why.

    ``size_mib`` is what the driver saw; what is written of it here counts more, because storage
    rounds up. Nothing happens when somebody changed the volume meanwhile.
    """
    row = lock(volume)
    if row.generation != volume.generation:
        return
    wanted = row.size_limit_mib
    row.size_limit_mib = size_mib if row.given_mib is None else (row.given_mib or None)
    row.growth_refused, row.growing_since = why[:MAX_WHY], None
    quotas.lower(row.uid, {STORAGE_MIB: row.size_limit_mib or 0})
    save(row, "size_limit_mib", "growth_refused", "growing_since")
    change = {"from": wanted, "to": row.size_limit_mib}
    tell(None, "volume.not-resized", row, message=why, data={"size_limit_mib": change})
