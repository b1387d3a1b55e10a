"""Saying which part of a cluster a class of storage stands near."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters.models import Pool
from common.errors import wrong
from volumes.topology import SEPARATOR

if TYPE_CHECKING:
    from volumes.models import VolumeClass


def place_near(row: VolumeClass, near: Any) -> None:
    """Write the pools of each place; ``near`` None: they stay as they are."""
    if near is None:
        return
    if not isinstance(near, list | tuple):
        raise wrong("near", _("A list of pools."))
    wanted = {_pool(str(word)) for word in near}
    places = list(row.places.all())
    if any(pool.cluster_id not in {place.cluster_id for place in places} for pool in wanted):
        raise wrong("near", _("It is not offered there."))
    for place in places:
        place.near.set(pool for pool in wanted if pool.cluster_id == place.cluster_id)


def _pool(word: str) -> Pool:
    cluster, _sep, name = word.partition(SEPARATOR)
    found = Pool.objects.filter(cluster__key=cluster, name=name).first()
    if found is None:
        raise wrong(
            "near", _("There is no pool “%(name)s”. Say it as cluster/pool.") % {"name": word[:104]}
        )
    return found
