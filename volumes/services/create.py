"""Making a volume, asked for or not: a home for each person, a shared one for each project."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _

from accounts.models import User
from clusters.models import Cluster
from clusters.usable import usable_clusters
from common.clock import now
from common.errors import BerthError, Conflict, wrong
from projects.access import Permission, require
from projects.choices import Role
from projects.models import Membership, Project, ProjectNamespace
from projects.services.life import require_active
from quotas.choices import words
from runtime.models import ONE_MACHINE
from runtime.protocol import Desired, Phase
from volumes import selectors
from volumes.choices import VolumeKind, WritePolicy
from volumes.models import Volume, VolumeClass
from volumes.services.base import reserve, tell
from volumes.services.classes import default_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from volumes.models import VolumeClass


log = structlog.get_logger(__name__)

SHARED = "shared"
RESERVED = frozenset({"home", SHARED})  # names of folders that are there unasked
REPAIRED = 200  # projects in one turn


def home_find(*, project: Project, owner: User, cluster_key: str) -> Volume | None:
    """Return the home of ``owner`` in ``project`` on a cluster, where there is one."""
    return _live(project, cluster_key, {"kind": VolumeKind.HOME, "owner": owner})


def home_ensure(
    *,
    principal: Principal | None,
    project: Project,
    owner: User,
    cluster_key: str = ONE_MACHINE,
) -> Volume:
    """Return the home of ``owner`` in ``project`` on a cluster; the first call makes the row."""
    existing = home_find(project=project, owner=owner, cluster_key=cluster_key)
    if existing is not None:
        return existing
    wanted: dict[str, Any] = {"kind": VolumeKind.HOME, "owner": owner}
    name = f"home-{owner.username}"[:63]
    return _make(principal, project, cluster_key, {**wanted, "name": name}, payer=owner)


def project_volume_ensure(
    *, principal: Principal | None, project: Project, cluster_key: str = ONE_MACHINE
) -> Volume:
    """Return the volume that the project's members share there; the first call makes the row."""
    existing = _live(project, cluster_key, {"kind": VolumeKind.PROJECT})
    if existing is not None:
        return existing
    owners = Membership.objects.filter(project=project, role=Role.OWNER).order_by("pk")
    first = None if principal else owners.select_related("user").first()
    payer = principal.user if principal else first.user if first else None
    wanted = {"kind": VolumeKind.PROJECT, "name": SHARED}
    return _make(principal, project, cluster_key, wanted, payer=payer)


def project_volumes_ensure(project: Project, principal: Principal | None = None) -> None:
    """Make the shared volume of a new project on every single machine that it may use.

    On clusters it is made with the first place there (``volumes.rules``).
    """
    for cluster in usable_clusters(project.uid):
        if not cluster.runs_images:
            project_volume_try(project, cluster.key, principal)


def project_volume_try(
    project: Project, cluster_key: str, principal: Principal | None = None
) -> bool:
    """Make it where limits leave room for it. Nobody waits for a volume that nobody asked for:
    a project without one gets it later, from housekeeping.
    """
    try:
        project_volume_ensure(principal=principal, project=project, cluster_key=cluster_key)
    except BerthError as error:
        log.info("volumes.shared_refused", project=str(project.uid), error=error.message)
        return False
    return True


def shared_volumes_repair() -> int:
    """Make shared volumes that are missing: of projects from before there were any.

    A safety net for periodic housekeeping; returns how many were made.
    """
    made = 0
    for cluster in Cluster.objects.filter(enabled=True):
        shared = Volume.objects.filter(
            project=OuterRef("pk"),
            cluster_key=cluster.key,
            kind=VolumeKind.PROJECT,
            deleted_at__isnull=True,
        )
        rows = Project.objects.filter(
            ~Exists(shared),
            desired=Desired.RUNNING,
            deleted_at__isnull=True,
            archived_at__isnull=True,
        )
        if cluster.runs_images:
            there = ProjectNamespace.objects.filter(
                project=OuterRef("pk"),
                cluster_key=cluster.key,
                phase=Phase.RUNNING,
                deleted_at=None,
            )
            rows = rows.filter(Exists(there))
        for project in rows.order_by("pk")[:REPAIRED]:
            made += _repair(project, cluster.key)
    return made


def _repair(project: Project, cluster_key: str) -> int:
    if cluster_key not in {cluster.key for cluster in usable_clusters(project.uid)}:
        return 0
    return int(project_volume_try(project, cluster_key))


def _make(
    principal: Principal | None,
    project: Project,
    cluster_key: str,
    wanted: dict[str, Any],
    *,
    payer: User | None,
) -> Volume:
    chosen = default_class(cluster_key)
    size = chosen.default_size_mib if chosen else None
    try:
        with transaction.atomic():
            volume = Volume.objects.create(
                project=project,
                cluster_key=cluster_key,
                volume_class=chosen,
                size_limit_mib=size,
                phase_since=now(),
                **backing_columns(chosen),
                **wanted,
            )
            if size is not None and payer is not None:
                reserve(principal, project=project, payer=payer, uid=volume.uid, size_mib=size)
            tell(principal, "volume.created", volume)
    except IntegrityError:  # somebody else made it at the same moment
        wanted.pop("name")
        raced = _live(project, cluster_key, wanted)
        if raced is None:
            raise
        return raced
    return volume


def backing_columns(chosen: VolumeClass | None) -> dict[str, Any]:
    """Return what a new volume keeps of its class for good."""
    if chosen is None:
        return {"backing_kind": "", "backing_options": {}}
    return {"backing_kind": chosen.backing_kind, "backing_options": dict(chosen.options)}


def _live(project: Project, cluster_key: str, wanted: dict[str, Any]) -> Volume | None:
    return Volume.objects.filter(
        project=project, cluster_key=cluster_key, deleted_at__isnull=True, **wanted
    ).first()


_NAME = re.compile(r"\A[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9_-])?\Z")
MAX_DESCRIPTION = 500
MAX_SIZE_MIB = 2**40  # an exbibyte: more is a slip of the hand
PRESSED_TWICE = timedelta(seconds=10)


@dataclass(frozen=True)
class NewVolume:
    """What is asked for. "" means: the platform chooses."""

    name: str
    size_mib: int
    cluster: str = ""
    volume_class: str = ""
    description: str = ""
    write_policy: str = WritePolicy.EVERYBODY
    near: str = ""  # a pool that its storage must stand near
    cache_of: str = ""  # of a cache, by the app that fills it: what it is a copy of, in words
    cache_mark: str = ""  # and what two caches of the same have in common


@dataclass(frozen=True)
class Chosen:
    """The same with everything decided."""

    name: str
    size_mib: int
    cluster_key: str
    volume_class: VolumeClass
    description: str
    write_policy: str
    cache_of: str
    cache_mark: str


def volume_create(*, principal: Principal, project: Project, wanted: NewVolume) -> Volume:
    """Make a volume of the project. Nothing but name and size is required."""
    require(principal, project, Permission.VOLUME_CREATE)
    require_active(project)
    chosen = choose(project, wanted)
    if (same := _pressed_twice(principal, project, chosen)) is not None:
        return same
    try:
        with transaction.atomic():
            return _create(principal, project, chosen)
    except IntegrityError as error:
        if (same := _pressed_twice(principal, project, chosen)) is not None:
            return same  # the other half of a double click was faster
        raise name_taken(chosen.name) from error


def choose(project: Project, wanted: NewVolume) -> Chosen:
    """Return what would be made, or raise what is wrong with it. Makes no volume; a cluster that
    has no class of storage yet gets its own.
    """
    name = clean_name(wanted.name)
    cluster, kind = _place(project, wanted)
    return Chosen(
        name=name,
        size_mib=clean_size(wanted.size_mib, kind),
        cluster_key=cluster.key,
        volume_class=kind,
        description=clean_description(wanted.description),
        write_policy=clean_policy(wanted.write_policy),
        cache_of=wanted.cache_of,
        cache_mark=wanted.cache_mark,
    )


def clean_name(value: str) -> str:
    """Return a plain folder name: it is seen under it wherever it is mounted."""
    name = str(value).strip()
    if not _NAME.match(name):
        raise wrong(
            "name",
            _("Small letters, digits, “-”, “_” and “.”; a letter or digit first; at most 63."),
        )
    if name in RESERVED:
        raise wrong(
            "name", _("“%(name)s” is the name of a volume that is there unasked.") % {"name": name}
        )
    return name


def clean_description(value: str) -> str:
    text = " ".join(str(value).split())
    if len(text) > MAX_DESCRIPTION or not text.isprintable():
        raise wrong(
            "description", _("At most %(n)d printable characters.") % {"n": MAX_DESCRIPTION}
        )
    return text


def clean_policy(value: str) -> str:
    if value not in WritePolicy.values:
        said = _("Choose one of: %(names)s.") % {"names": ", ".join(WritePolicy.values)}
        raise wrong("write_policy", said)
    return value


def clean_size(size_mib: int, kind: VolumeClass | None) -> int:
    """Return the size when the class has such volumes."""
    if not 1 <= size_mib <= MAX_SIZE_MIB:
        raise wrong("size_mib", _("A size of at least 1 MiB."))
    if kind is None:
        return size_mib
    if size_mib < kind.min_size_mib:
        said = _("The smallest volume of “%(kind)s” has %(size)s.")
        raise wrong(
            "size_mib", said % {"kind": kind.name, "size": words("storage_mib", kind.min_size_mib)}
        )
    if kind.max_size_mib is not None and size_mib > kind.max_size_mib:
        said = _("The largest volume of “%(kind)s” has %(size)s.")
        raise wrong(
            "size_mib", said % {"kind": kind.name, "size": words("storage_mib", kind.max_size_mib)}
        )
    return size_mib


def name_taken(name: str) -> Conflict:
    said = _("There is a volume called “%(name)s” already.") % {"name": name}
    return Conflict(said, code="name-taken", fields={"name": [said]})


def _place(project: Project, wanted: NewVolume) -> tuple[Cluster, VolumeClass]:
    """Return cluster and class: what was said, else the default of the first usable cluster."""
    usable = {cluster.key: cluster for cluster in usable_clusters(project.uid)}
    if wanted.cluster and wanted.cluster not in usable:
        raise wrong("cluster", _("There is no such cluster, or the project may not use it."))
    offers, near = selectors.offers_near(usable.values(), project.uid)
    if wanted.near:
        return _place_near(wanted, usable, offers, near)
    keys = [wanted.cluster] if wanted.cluster else list(usable)
    if wanted.volume_class:
        keys = [key for key in keys if wanted.volume_class in offers.get(key, {})]
        if not keys:
            raise wrong("volume_class", _("There is no such class of storage there."))
        return usable[keys[0]], offers[keys[0]][wanted.volume_class]
    for key in keys:
        found = default_class(key)
        if found is not None and found.enabled:
            return usable[key], found
    raise Conflict(
        _("No storage is offered to this project. Ask an operator."), code="no-volume-class"
    )


def _place_near(
    wanted: NewVolume,
    usable: Mapping[str, Cluster],
    offers: Mapping[str, Mapping[str, VolumeClass]],
    near: Mapping[tuple[str, str], list[str]],
) -> tuple[Cluster, VolumeClass]:
    """Return the first class that stands near the pool; a default goes before others."""
    for key, kinds in offers.items():
        for name, kind in kinds.items():
            said = wanted.cluster in {"", key} and wanted.volume_class in {"", name}
            if said and wanted.near in near.get((key, name), ()):
                return usable[key], kind
    raise wrong(
        "near", _("No storage stands near a pool called “%(name)s”.") % {"name": wanted.near[:63]}
    )


def _create(principal: Principal, project: Project, chosen: Chosen) -> Volume:
    row = Volume.objects.create(
        project=project,
        created_by=principal.user,
        cluster_key=chosen.cluster_key,
        kind=VolumeKind.DATA,
        name=chosen.name,
        description=chosen.description,
        write_policy=chosen.write_policy,
        volume_class=chosen.volume_class,
        size_limit_mib=chosen.size_mib,
        cache_of=chosen.cache_of,
        cache_mark=chosen.cache_mark,
        phase_since=now(),
        **backing_columns(chosen.volume_class),
    )
    reserve(
        principal,
        project=project,
        payer=principal.user,
        uid=row.uid,
        size_mib=chosen.size_mib,
    )
    tell(
        principal,
        "volume.created",
        row,
        data={
            "class": chosen.volume_class.key,
            "cluster": chosen.cluster_key,
            "size_mib": chosen.size_mib,
        },
    )
    return row


def _pressed_twice(principal: Principal, project: Project, chosen: Chosen) -> Volume | None:
    """Return what the same press made a moment ago: a double click is one volume."""
    return Volume.objects.filter(
        project=project,
        cluster_key=chosen.cluster_key,
        kind=VolumeKind.DATA,
        name=chosen.name,
        created_by=principal.user,
        size_limit_mib=chosen.size_mib,
        volume_class=chosen.volume_class,
        cache_mark=chosen.cache_mark,
        created_at__gt=now() - PRESSED_TWICE,
        delete_requested_at__isnull=True,
        deleted_at__isnull=True,
    ).first()
