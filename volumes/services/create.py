"""Making a volume: a name and a size; the rest has a default."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from clusters.usable import usable_clusters
from common.clock import now
from common.errors import Conflict, wrong
from projects.access import Permission, require
from projects.services import require_active
from quotas.choices import words
from volumes import selectors
from volumes.choices import VolumeKind, WritePolicy
from volumes.models import Volume, VolumeClass
from volumes.services.base import reserve, tell
from volumes.services.classes import default_class
from volumes.services.homes import RESERVED, backing_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from clusters.models import Cluster
    from projects.models import Project

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
