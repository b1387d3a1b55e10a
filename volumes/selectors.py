"""Reading volumes. A home is private: others see that it is there and how large, not inside."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING

from django.db.models import F, OuterRef, Q, Subquery
from django.utils.translation import gettext as _

from accounts.principal import Principal
from clusters.models import Cluster, label_of
from common.clock import now
from common.errors import Conflict, Forbidden, NotFound
from projects.access import Permission, permissions_of, require, role_of, scoped
from projects.choices import Role
from runtime.protocol import Desired
from volumes.choices import TransferState, VolumeKind, WritePolicy
from volumes.models import MIB, ClassPlace, Volume, VolumeClass, VolumeSnapshot, VolumeTransfer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from uuid import UUID

    from django.db.models import QuerySet

    from projects.models import Project


_RELATED = ("project", "owner", "created_by", "volume_class", "last_used_by")


def volumes_visible_to(who: Principal, project: Project | None = None) -> QuerySet[Volume]:
    """Return the volumes ``who`` may see, newest first, with project and people joined."""
    rows = Volume.objects.filter(deleted_at__isnull=True).select_related(*_RELATED)
    if project is not None:
        rows = rows.filter(project=project)
    return scoped(rows, who, Permission.VOLUME_READ).order_by("-id")


def volume_get(who: Principal, uid: UUID | str, project: Project | None = None) -> Volume:
    """Return one volume with the name of its cluster, or NotFound (the same for "not yours")."""
    cluster = Cluster.objects.filter(key=OuterRef("cluster_key"))
    rows = volumes_visible_to(who, project).annotate(cluster_name=Subquery(cluster.values("name")))
    try:
        row = rows.get(uid=uid)
    except Volume.DoesNotExist:
        raise NotFound(_("There is no such volume, or you may not see it.")) from None
    row.cluster_name = label_of(row.cluster_key, row.cluster_name or row.cluster_key)
    return row


def volumes_mountable(
    who: Principal, project: Project, cluster_key: str | None = None
) -> QuerySet[Volume]:
    """Return what ``who`` may use in work of his: his own homes, and what the project shares.

    What is being deleted, restored or handed over is not among them. Whether it may be written
    to is ``may_write``.
    """
    rows = _at_rest(volumes_visible_to(who, project), cluster_key)
    mine = Q(kind=VolumeKind.HOME, owner=who.user)
    if Permission.VOLUME_USE in permissions_of(who, project):
        rows = rows.filter(mine | Q(kind__in=[VolumeKind.PROJECT, VolumeKind.DATA]))
    else:
        rows = rows.filter(mine)
    return rows.order_by("cluster_key", "kind", "name", "id")


def volume_named(who: Principal, project: Project, volume: Volume) -> str:
    """Return how ``who`` names it in work of his: the id where several have its name."""
    rows = volumes_mountable(who, project)
    is_home = volume.kind == VolumeKind.HOME
    same = rows.filter(kind=VolumeKind.HOME) if is_home else rows.filter(name=volume.name)
    return str(volume.uid) if same.order_by()[:2].count() > 1 else volume.mount_name


def _at_rest(rows: QuerySet[Volume], cluster_key: str | None) -> QuerySet[Volume]:
    """Narrow to what is not being deleted, restored or handed over, on the cluster if named."""
    there = rows.filter(
        desired=Desired.RUNNING,
        restore_done=F("restore_serial"),
        move_done=F("move_serial"),
    )
    return there if cluster_key is None else there.filter(cluster_key=cluster_key)


def project_volume_of(who: Principal, project: Project, cluster_key: str | None) -> Volume | None:
    """Return the project's own volume as ``volumes_mountable`` has it, for a ``project`` that
    ``who`` has just entered. Nothing is joined.
    """
    wanted = {Permission.VOLUME_READ, Permission.VOLUME_USE}
    if not wanted <= permissions_of(who, project):
        return None
    own = Volume.objects.filter(project=project, kind=VolumeKind.PROJECT, deleted_at__isnull=True)
    found = _at_rest(own, cluster_key).order_by("cluster_key", "name", "id").first()
    if found is not None:
        found.project = project
    return found


def volume_for_use(
    who: Principal,
    project: Project | None,
    uid: UUID | str,
    *,
    write: bool,
    even_full: bool = False,
) -> Volume:
    """Return a volume (of ``project``, None: of any) that ``who`` may use now, or raise what is
    in the way of it.

    ``even_full``: for work whose files lie there, so that somebody can delete some of them.
    """
    volume = volume_get(who, uid, project)
    require_for_use(who, volume, write=write, even_full=even_full)
    return volume


def require_for_use(
    who: Principal, volume: Volume, *, write: bool, even_full: bool = False
) -> None:
    """The same for a volume that ``who`` is known to see."""
    project = volume.project
    if volume.kind == VolumeKind.HOME:
        if volume.owner_id != who.user.pk:
            raise Forbidden(_("A home is private: only its owner may use it."))
        require(who, project, Permission.VOLUME_READ)
    else:
        _require_use(who, project, write=write)
    require_usable(volume)
    if write:
        if not may_write(who, volume):
            raise Forbidden(
                _("“%(name)s” may only be read by you: its maker and the project's managers write.")
                % {"name": volume.name}
            )
        if not even_full:
            require_room(volume)


def is_usable(who: Principal, volume: Volume, granted: Collection[Permission]) -> bool:
    """Whether ``volume_for_use`` would let a person (no token) in to read; asks nothing."""
    needed = Permission.VOLUME_READ
    if volume.kind != VolumeKind.HOME:
        needed = Permission.VOLUME_USE
    elif volume.owner_id != who.user.pk:
        return False
    gone = volume.deleted_at is not None or volume.project.deleted_at is not None
    on_its_way = volume.is_being_deleted or volume.is_restoring or volume.is_moving
    return needed in granted and Permission.VOLUME_READ in granted and not (gone or on_its_way)


def _require_use(who: Principal, project: Project, *, write: bool) -> None:
    """Raise unless ``who`` may use shared volumes. A token that only reads may read what its
    person may use: it starts nothing, so reading is all that the right means to it.
    """
    if write or who.token is None or not who.token.read_only:
        require(who, project, Permission.VOLUME_USE)
        return
    require(who, project, Permission.VOLUME_READ)
    require(Principal(user=who.user, ip=who.ip), project, Permission.VOLUME_USE)


def require_usable(volume: Volume) -> None:
    """Raise Conflict while the volume is on its way out, back, or to another project."""
    name = {"name": volume.name}
    if volume.is_being_deleted:
        raise Conflict(_("“%(name)s” is being deleted.") % name, code="volume-deleting")
    if volume.is_restoring:
        raise Conflict(_("“%(name)s” is being restored.") % name, code="volume-restoring")
    if volume.is_moving:
        raise Conflict(
            _("“%(name)s” is being handed to another project.") % name, code="volume-moving"
        )


def require_room(volume: Volume) -> None:
    if volume.is_full:
        raise Conflict(
            _("“%(name)s” is full. Delete files or make it larger.") % {"name": volume.name},
            code="volume-full",
        )


def may_write(who: Principal, volume: Volume) -> bool:
    """Whether ``who`` may change the files; that he may use it at all is asked before."""
    return writes(who, volume, permissions_of(who, volume.project))


def writes(who: Principal, volume: Volume, granted: Collection[Permission]) -> bool:
    """The same for rights in its project that are known; asks the database nothing."""
    if volume.kind == VolumeKind.HOME:
        return volume.owner_id == who.user.pk
    if Permission.VOLUME_USE not in granted:
        return False
    if volume.write_policy == WritePolicy.EVERYBODY:
        return True
    return volume.created_by_id == who.user.pk or Permission.VOLUME_MANAGE in granted


def changes(who: Principal, volume: Volume, granted: Collection[Permission]) -> bool:
    """Whether ``who`` may rename, resize and delete it (services ask again)."""
    if Permission.VOLUME_MANAGE in granted:
        return True
    mine = volume.kind == VolumeKind.DATA and volume.created_by_id == who.user.pk
    return mine and Permission.VOLUME_CREATE in granted


def keeps(who: Principal, volume: Volume, granted: Collection[Permission]) -> bool:
    """Whether ``who`` may make copies of it and put them back: of a home only its owner."""
    if volume.kind == VolumeKind.HOME:
        return volume.owner_id == who.user.pk
    return changes(who, volume, granted)


def can_snapshot(volume: Volume) -> bool:
    """Whether copies of it can be kept: its class allows them and the driver said it can."""
    allowed = volume.volume_class is None or volume.volume_class.can_snapshot
    return allowed and bool(volume.abilities.get("snapshot", False))


def can_transfer(volume: Volume) -> bool:
    """Whether its storage lets it go to another project, as the driver said."""
    return volume.kind == VolumeKind.DATA and bool(volume.abilities.get("move", False))


def can_grow(volume: Volume) -> bool:
    """Whether it can be made larger, as the driver said; nobody knows of a new one: perhaps."""
    return bool(volume.abilities.get("grow", True))


def growth_refusal(volume: Volume) -> str:
    """Return why the last wish for more came to nothing and what to do, "" when none did."""
    if not volume.growth_refused:
        return ""
    return _(
        "It was not made larger, and counts as before. The answer was: %(why)s Make a larger"
        " volume and copy the files into it, or ask an operator."
    ) % {"why": volume.growth_refused}


def price_of(volume: Volume) -> Decimal:
    """Return what it costs a month: its size, or what is used where it has none."""
    if volume.volume_class is None:
        return Decimal(0)
    mib = volume.size_limit_mib
    if mib is None:
        mib = -(-(volume.used_bytes or 0) // MIB)
    return volume.volume_class.price * mib / 1024


def room_left(volume: Volume) -> int | None:
    """Return the bytes that still fit; None where there is no size or it was not measured."""
    if volume.size_bytes is None or volume.used_bytes is None:
        return None
    return max(0, volume.size_bytes - volume.used_bytes)


def snapshots_of(who: Principal, volume: Volume) -> QuerySet[VolumeSnapshot]:
    """Return the copies of a volume that was got by ``volume_get``; of homes only to the owner."""
    rows = VolumeSnapshot.objects.filter(volume=volume, deleted_at__isnull=True)
    if volume.kind == VolumeKind.HOME and volume.owner_id != who.user.pk:
        return rows.none()
    return rows.select_related("created_by", "volume").order_by("-id")


def snapshot_get(who: Principal, volume: Volume, uid: UUID | str) -> VolumeSnapshot:
    found = snapshots_of(who, volume).filter(uid=uid).first()
    if found is None:
        raise NotFound(_("There is no such snapshot."))
    return found


def transfers_asked_of(who: Principal, project: Project) -> QuerySet[VolumeTransfer]:
    """Return the open offers to ``project``, for those who may answer them."""
    rows = _open_transfers().filter(to_project=project)
    return rows if is_owner(who, project) else rows.none()


def transfer_of(volume: Volume) -> VolumeTransfer | None:
    """Return the open offer of a volume, if any."""
    return _open_transfers().filter(volume=volume).first()


def transfer_get(who: Principal, project: Project, uid: UUID | str) -> VolumeTransfer:
    """Return an offer to ``project``, for its owners; closed ones too, so that it can be said."""
    rows = VolumeTransfer.objects.select_related(*_TRANSFER).filter(to_project=project, uid=uid)
    found = rows.first() if is_owner(who, project) else None
    if found is None:
        raise NotFound(_("There is no such offer, or you may not see it."))
    return found


def is_owner(who: Principal, project: Project) -> bool:
    return (
        Permission.VOLUME_MANAGE in permissions_of(who, project)
        and role_of(who, project) == Role.OWNER
    )


_TRANSFER = (
    "volume",
    "volume__project",
    "volume__owner",
    "from_project",
    "to_project",
    "asked_by",
)


def _open_transfers() -> QuerySet[VolumeTransfer]:
    rows = VolumeTransfer.objects.select_related(*_TRANSFER)
    return rows.filter(
        state=TransferState.ASKED,
        expires_at__gt=now(),
        volume__desired=Desired.RUNNING,
        volume__deleted_at__isnull=True,
    ).order_by("-id")


def offers(clusters: Iterable[Cluster]) -> dict[str, dict[str, VolumeClass]]:
    """Return cluster key → class key → class of what may be chosen there."""
    return offers_near(clusters, None)[0]


def offers_near(
    clusters: Iterable[Cluster], project_uid: UUID | None
) -> tuple[dict[str, dict[str, VolumeClass]], dict[tuple[str, str], list[str]]]:
    """Return the same, and (cluster, class) → the pools that such a volume would stand near, of
    those that the project may know. In one query.
    """
    keys = [cluster.key for cluster in clusters]
    rows = (
        ClassPlace.objects.filter(cluster__key__in=keys, volume_class__enabled=True)
        .annotate(pool=F("near__name"), of_projects=F("near__project_uids"))  # a row for each pool
        .select_related("volume_class", "cluster")
        .order_by(
            *("-is_default", "volume_class__position", "volume_class__name", "id"),
            *("near__position", "near__name"),
        )
    )
    found: dict[str, dict[str, VolumeClass]] = {key: {} for key in keys}
    near: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        found[row.cluster.key].setdefault(row.volume_class.key, row.volume_class)
        if row.pool and (not row.of_projects or str(project_uid) in row.of_projects):
            near[row.cluster.key, row.volume_class.key].append(row.pool)
    return found, near


def classes() -> QuerySet[VolumeClass]:
    """Return every class, with its places; for operators' pages."""
    return VolumeClass.objects.prefetch_related("places__cluster", "places__near").order_by(
        "position", "name", "id"
    )


def class_get(key: str) -> VolumeClass:
    found = classes().filter(key=key).first()
    if found is None:
        raise NotFound(_("There is no such class of storage."))
    return found


MOST = 80


def narrowed(rows: QuerySet[Volume], who: Principal, said: Mapping[str, str]) -> QuerySet[Volume]:
    """Return those of ``rows`` that fit; a filter that makes no sense narrows nothing."""
    if words := _text(said, "q"):
        rows = rows.filter(Q(name__icontains=words) | Q(description__icontains=words))
    if (kind := _text(said, "kind")) in VolumeKind.values:
        rows = rows.filter(kind=kind)
    if cluster := _text(said, "cluster"):
        rows = rows.filter(cluster_key=cluster)
    if key := _text(said, "class"):
        rows = rows.filter(volume_class__key=key)
    if _text(said, "mine") in {"1", "true"}:
        rows = rows.filter(Q(owner=who.user) | Q(created_by=who.user))
    if _text(said, "deleted") in {"1", "true"}:
        rows = rows.filter(desired=Desired.ABSENT)
    return rows


def _text(said: Mapping[str, str], name: str) -> str:
    return str(said.get(name) or "").replace("\x00", "").strip()[:MOST]
