"""What every act on a volume shares: who may, the locked row, who is in the way, who uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import connection
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.principal import Principal
from common.clock import now
from common.errors import Conflict, Forbidden, wrong
from events import services as events
from projects.access import Permission, permissions_of, require
from quotas import services as quotas
from quotas.choices import STORAGE_MIB
from runtime import bus
from runtime.hints import hint, hint_uids
from volumes import references
from volumes.choices import VolumeKind
from volumes.models import Volume
from volumes.selectors import changes, require_usable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accounts.models import User
    from projects.models import Project


_NAMED = 5


def lock(volume: Volume) -> Volume:
    """Return the row as it is now, locked until the transaction ends."""
    rows = Volume.objects.select_for_update(of=("self",)).select_related("project", "owner")
    row = rows.filter(pk=volume.pk, deleted_at__isnull=True).first()
    if row is None:
        raise Conflict(_("“%(name)s” is gone.") % {"name": volume.name}, code="volume-gone")
    return row


def require_changer(principal: Principal, volume: Volume) -> None:
    """Raise unless ``principal`` made the volume or manages those of the project."""
    require(principal, volume.project, Permission.VOLUME_READ)
    if changes(principal, volume, permissions_of(principal, volume.project)):
        return
    raise Forbidden(_("Only who made the volume, or manages the project's volumes, may do this."))


def require_kind(volume: Volume, *kinds: VolumeKind) -> None:
    if volume.kind in kinds:
        return
    if volume.kind == VolumeKind.HOME:
        raise Conflict(
            _("A home stays with its owner as long as the project exists."), code="volume-kind"
        )
    raise Conflict(_("The shared volume stays as long as the project exists."), code="volume-kind")


def require_unused(volume: Volume) -> None:
    """Raise Conflict that names who has it mounted."""
    found = references.holders_of(volume)
    if not found:
        return
    names = [f"{h.name} ({h.who})" if h.who else h.name for h in found[:_NAMED]]
    if more := len(found) - len(names):
        names.append(ngettext("%(n)d more", "%(n)d more", more) % {"n": more})
    raise Conflict(
        _("“%(name)s” is in use by %(who)s.") % {"name": volume.name, "who": ", ".join(names)},
        code="volume-in-use",
        extra={
            "holders": [
                {"kind": h.kind, "id": h.uid, "name": h.name, "who": h.who} for h in found[:50]
            ]
        },
    )


def require_typed(typed: str | None, name: str) -> None:
    """Pages pass what was typed; None: the caller said it by naming the thing."""
    if typed is not None and typed.strip() != name:
        said = _("This is not its name. Nothing was changed.")
        raise wrong("confirm", said)


def save(row: Volume, *columns: str) -> None:
    """Write intent: the engine is to look at it."""
    row.generation += 1
    row.save(update_fields=[*columns, "generation", "updated_at"])


def tell(
    principal: Principal | None,
    verb: str,
    row: Volume,
    *,
    message: str = "",
    data: dict[str, Any] | None = None,
) -> None:
    """Record what was done, wake the engine and open pages."""
    events.record(
        actor=principal,
        verb=verb,
        target=row,
        project_uid=row.project.uid,
        message=message,
        data=data,
    )
    hint(row)
    publish(row)


def publish(row: Volume) -> None:
    topics = [f"volume:{row.uid}", f"project:{row.project.uid}"]
    bus.publish(topics, {"kind": row.KIND, "uid": str(row.uid)})


def payer_of(volume: Volume) -> User | None:
    """Return whose limit its size counts against, besides the project's."""
    return volume.owner or volume.created_by


def reserve(
    principal: Principal | None,
    *,
    project: Project,
    payer: User,
    uid: UUID,
    size_mib: int | None,
) -> None:
    """Take the size of the storage limits, in the transaction of the intent."""
    quotas.reserve(
        principal=principal or Principal(user=payer),
        project=project,
        owner=payer,
        uid=uid,
        amounts={STORAGE_MIB: size_mib or 0},
    )


# What ``require_usable`` reads.
_STATE = (
    *("id", "name", "desired", "deleted_at"),
    *("restore_serial", "restore_done", "move_serial", "move_done"),
)
# The lock of a reference to the row: a change of other columns does not wait for it. A row that
# was waited for is answered as it is then.
_HOLD = (
    f"SELECT {', '.join(_STATE)} FROM volumes_volume"  # noqa: S608 - names of this file
    " WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE"
)


def volumes_hold(volumes: Iterable[Volume]) -> None:
    """Raise unless each that is still there may be used; so it stays until the transaction ends.

    What puts a volume back, removes it or hands it over locks its row, then asks who uses it: it
    waits for us or we for it. Holders do not wait for each other. SQLite has one writer anyhow.
    Call it before anything that takes limits: those who lock a volume take them second.
    """
    keys = sorted({volume.pk for volume in volumes})
    if not keys:
        return
    rows: Iterable[Volume] = Volume.objects.filter(pk__in=keys).only(*_STATE).order_by("pk")
    if connection.vendor == "postgresql":
        rows = Volume.objects.raw(_HOLD, [keys])
    for row in rows:
        if row.deleted_at is None:
            require_usable(row)


def volume_take_turn(volume: Volume) -> None:
    """Let whoever calls this for the same volume wait until the transaction ends.

    For a rule between rows that lie on one volume: what is asked after it sees all that others
    have written. Holders do not wait for it, nor it for them.
    """
    list(Volume.objects.select_for_update(no_key=True).filter(pk=volume.pk).values_list("pk"))


def volume_note_use(*, uids: Iterable[UUID | str], user: User | None) -> None:
    """Remember who used them last, and when. Called by whatever mounts them or writes there."""
    Volume.objects.filter(uid__in=list(uids), deleted_at__isnull=True).update(
        last_used_at=now(), last_used_by=user
    )


def volume_note_written(*, uids: Iterable[UUID | str]) -> None:
    """Something may have been written that no measurement has seen; there is no hurry."""
    wanted = [UUID(str(uid)) for uid in uids]
    Volume.objects.filter(uid__in=wanted, deleted_at__isnull=True).update(measure_asked_at=now())


def volume_measure_soon(*, uids: Iterable[UUID | str]) -> None:
    """Measure them anew: something wrote, or deleted, a lot."""
    wanted = [UUID(str(uid)) for uid in uids]
    volume_note_written(uids=wanted)
    hint_uids(Volume.KIND, wanted)
