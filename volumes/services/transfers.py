"""Handing a volume to another project: asked by an owner of one, taken by an owner of the other.

The project's column changes when it is taken, in that moment and transaction, so that nobody of
the old one gets in any more; files and claims follow by the engine, and until they did nobody
uses the volume.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from clusters.usable import usable_clusters
from common.clock import now
from common.errors import Conflict, Forbidden, wrong
from events import services as events
from notifications.services import notify
from projects.access import Permission, require, role_of
from projects.choices import Role
from projects.models import Membership, Project
from projects.services.life import require_active
from quotas import services as quotas
from volumes.choices import TransferState, VolumeKind
from volumes.models import Volume, VolumeSnapshot, VolumeTransfer
from volumes.selectors import require_usable
from volumes.services.base import (
    lock,
    publish,
    require_kind,
    require_unused,
    reserve,
    save,
    tell,
)
from volumes.services.create import clean_description, clean_name, name_taken

if TYPE_CHECKING:
    from accounts.principal import Principal

OPEN_FOR = timedelta(days=7)
MAX_SLUG = 40


@transaction.atomic
def transfer_ask(
    *, principal: Principal, volume: Volume, to: str, message: str = ""
) -> VolumeTransfer:
    """Offer a volume to the project at the address ``to``.

    The answer is the same whether there is such a project or not: asking tells nothing.
    """
    row = lock(volume)
    _require_owner(principal, row.project)
    require_kind(row, VolumeKind.DATA)
    require_usable(row)
    require_unused(row)
    _require_movable(row)
    slug = to.strip()
    if not slug or len(slug) > MAX_SLUG or slug == row.project.slug:
        said = _("Give the address of another project.")
        raise wrong("to", said)
    VolumeTransfer.objects.filter(
        volume=row, state=TransferState.ASKED, expires_at__lte=now()
    ).update(state=TransferState.WITHDRAWN, decided_at=now())
    target = Project.objects.filter(slug=slug, deleted_at__isnull=True).first()
    try:
        with transaction.atomic():
            transfer = VolumeTransfer.objects.create(
                volume=row,
                from_project=row.project,
                to_slug=slug,
                to_project=target,
                message=clean_description(message)[:300],
                asked_by=principal.user,
                asked_at=now(),
                expires_at=now() + OPEN_FOR,
            )
    except IntegrityError as error:
        said = _("It is offered to a project already. Take that back first.")
        raise Conflict(said, code="transfer-open") from error
    tell(principal, "volume.transfer-asked", row, message=slug)
    if target is not None:
        _notify_owners(principal, transfer, target)
    return transfer


@transaction.atomic
def transfer_withdraw(*, principal: Principal, transfer: VolumeTransfer) -> VolumeTransfer:
    """Take an offer back."""
    row = lock(transfer.volume)
    _require_owner(principal, row.project)
    found = _decide(principal, transfer, TransferState.WITHDRAWN)
    tell(principal, "volume.transfer-withdrawn", row, message=found.to_slug)
    return found


@transaction.atomic
def transfer_decline(*, principal: Principal, transfer: VolumeTransfer) -> VolumeTransfer:
    """Say no; the volume stays where it is."""
    row = lock(transfer.volume)
    target = _target(principal, transfer)
    found = _decide(principal, transfer, TransferState.DECLINED)
    tell(principal, "volume.transfer-declined", row, message=found.to_slug)
    _notify_asker(found, target, "volume.transfer-declined")
    return found


def transfer_accept(
    *, principal: Principal, transfer: VolumeTransfer, name: str | None = None
) -> Volume:
    """Take the volume over, under another name when its own is taken here."""
    wanted = clean_name(name) if name else ""
    try:
        with transaction.atomic():
            return _accept(principal, transfer, wanted)
    except IntegrityError as error:
        raise name_taken(wanted or transfer.volume.name) from error


def _accept(principal: Principal, transfer: VolumeTransfer, name: str) -> Volume:
    row = lock(transfer.volume)
    target = _target(principal, transfer)
    found = _decide(principal, transfer, TransferState.ACCEPTED)
    require_active(target)
    require_usable(row)
    require_unused(row)
    _require_movable(row)
    if row.cluster_key not in {cluster.key for cluster in usable_clusters(target.uid)}:
        raise Conflict(
            _("Your project may not use the cluster where the volume is."), code="cluster"
        )
    source = row.project
    # Freed first: what it held in the other project is no claim on anything here.
    quotas.release(row.uid)
    row.project, row.created_by, row.name = target, principal.user, name or row.name
    row.cache_of = row.cache_mark = ""  # whether the source opens to the new owners is not known
    row.move_serial += 1
    save(row, "project", "created_by", "name", "cache_of", "cache_mark", "move_serial")
    reserve(
        principal,
        project=target,
        payer=principal.user,
        uid=row.uid,
        size_mib=row.size_limit_mib,
    )
    tell(principal, "volume.transferred", row, message=f"{source.slug} → {target.slug}")
    events.record(
        actor=principal,
        verb="volume.transferred",
        target=row,
        project_uid=source.uid,
        message=f"{source.slug} → {target.slug}",
    )
    _notify_asker(found, target, "volume.transfer-accepted")
    return row


def _require_owner(principal: Principal, project: Project) -> None:
    """Consent is an owner's own; operators act for no project here."""
    require(principal, project, Permission.VOLUME_MANAGE)
    if role_of(principal, project) != Role.OWNER:
        raise Forbidden(_("Only an owner of the project may hand over its volumes."))


def _target(principal: Principal, transfer: VolumeTransfer) -> Project:
    if transfer.to_project is None:
        raise Conflict(_("This offer is closed."), code="transfer-closed")
    _require_owner(principal, transfer.to_project)
    return transfer.to_project


def _require_movable(row: Volume) -> None:
    if not row.abilities.get("move", False):
        raise Conflict(
            _("Volumes of its class can't be handed over there. Copy the files by a load."),
            code="no-moves",
        )
    if VolumeSnapshot.objects.filter(volume=row, deleted_at__isnull=True).exists():
        raise Conflict(
            _("It has snapshots, which can't go with it. Delete them first."),
            code="has-snapshots",
        )


def _decide(principal: Principal, transfer: VolumeTransfer, state: TransferState) -> VolumeTransfer:
    """Close an open offer; of two answers the first one counts."""
    found = VolumeTransfer.objects.select_for_update().get(pk=transfer.pk)
    if not found.is_open:
        raise Conflict(_("This offer is closed."), code="transfer-closed")
    found.state, found.decided_by, found.decided_at = state, principal.user, now()
    found.save(update_fields=["state", "decided_by", "decided_at"])
    return found


def _notify_owners(principal: Principal, transfer: VolumeTransfer, target: Project) -> None:
    rows = Membership.objects.filter(project=target, role=Role.OWNER, user__is_active=True)
    notify(
        users=[m.user for m in rows.select_related("user")],
        kind="volume.transfer-asked",
        params={
            "who": principal.user.label,
            "name": transfer.volume.name,
            "project": transfer.from_project.name,
            "to": target.name,
        },
        url=f"/projects/{target.slug}/volumes/",
        key=str(transfer.uid),
        project_id=target.pk,
    )
    publish(transfer.volume)


def _notify_asker(transfer: VolumeTransfer, target: Project, kind: str) -> None:
    if transfer.asked_by is None:
        return
    notify(
        users=[transfer.asked_by],
        kind=kind,
        params={"name": transfer.volume.name, "project": target.name},
        url=f"/projects/{transfer.from_project.slug}/volumes/",
        project_id=transfer.from_project_id,
    )
