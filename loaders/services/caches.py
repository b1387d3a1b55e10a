"""A cache of a source as the target of a load: the one that is there, or one that is made.

It is said where a volume is named: ``cache:`` or, pinned near a part of a cluster, ``cache:pool``;
no volume has such a name. A cache is a volume like another one that says what it is a copy of.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from common.errors import Conflict, Invalid, wrong
from loaders import policies
from projects.access import Permission, require
from volumes.models import Volume
from volumes.selectors import volume_for_use, volumes_mountable
from volumes.services.create import NewVolume, choose, volume_create
from volumes.topology import names_near

if TYPE_CHECKING:
    from accounts.principal import Principal
    from loaders.models import Load
    from projects.models import Project

CACHE = "cache:"  # said in place of a volume; a pool that follows is the one that it is near
_OTHERS = re.compile(r"[^a-z0-9]+")
_LONGEST = 40


def choose_cache(who: Principal, row: Load, said: str, size_mib: int | None) -> None:
    """Make the cache of its source the target of ``row``, or the cache that is made with it."""
    project = row.project
    if row.is_export:
        raise wrong("volume", _("A cache is loaded into. Name the volume that is exported."))
    if row.folder:
        raise wrong("folder", _("A cache holds its source and nothing beside it: no folder."))
    pool, mark = said.removeprefix(CACHE).strip(), mark_of(row)
    if (there := _find(who, project, mark, pool)) is not None:
        row.volume = volume_for_use(who, project, there.uid, write=True)
        row.cluster_key = row.volume.cluster_key
        return
    require(who, project, Permission.VOLUME_CREATE)
    if size_mib is None:
        raise wrong("cache_size_mib", _("There is no such cache yet: say how large it becomes."))
    wanted = NewVolume(
        name=_name(row),
        size_mib=size_mib,
        cluster="" if pool else row.cluster_key,
        near=pool,
        cache_of=row.url,
        cache_mark=mark,
    )
    try:
        chosen = choose(project, wanted)
    except Invalid as error:
        field = "cache_size_mib" if "size_mib" in error.fields else "volume"
        raise wrong(field, error.message) from error
    row.cache, row.cluster_key = wanted, chosen.cluster_key


def cache_made(who: Principal, project: Project, wanted: NewVolume) -> Volume:
    """Make the cache, or return the one that somebody else made at the same moment."""
    try:
        return volume_create(principal=who, project=project, wanted=wanted)
    except Conflict as error:
        found = _find(who, project, wanted.cache_mark, wanted.near)
        if error.code != "name-taken" or found is None:
            raise
        return found


def _find(who: Principal, project: Project, mark: str, pool: str) -> Volume | None:
    rows = volumes_mountable(who, project).filter(cache_mark=mark).order_by("pk")
    return next((row for row in rows if _is_near(row, pool)), None)


def is_cache_of(row: Load, said: str) -> bool:
    """Whether ``said`` names the target that it has."""
    pool = said.removeprefix(CACHE).strip()
    return row.volume.cache_mark == mark_of(row) and _is_near(row.volume, pool)


def mark_of(row: Load) -> str:
    """Return what two loads have in common whose sources are the same, in the same version."""
    return policies.fingerprint(
        kind=row.store_kind,
        store=row.store,
        bucket=row.bucket,
        prefix=row.prefix,
        version=row.version,
    )


def _is_near(volume: Volume, pool: str) -> bool:
    return not pool or pool in names_near(volume)


def _name(row: Load) -> str:
    """Return a free name that tells what it holds; two presses at once find the same one."""
    rows = Volume.objects.filter(project=row.project, deleted_at__isnull=True)
    taken = set(rows.values_list("name", flat=True))
    words = _OTHERS.sub("-", f"{row.bucket}-{row.prefix}".lower()).strip("-")
    base = f"cache-{words[:_LONGEST].strip('-')}" if words else "cache"
    return next(n for n in (base, *(f"{base}-{k}" for k in range(2, 1000))) if n not in taken)
