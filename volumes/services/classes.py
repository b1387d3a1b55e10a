"""Classes of storage as operators lay them down, and the one that each cluster has unasked."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from clusters.models import Cluster, Pool
from clusters.options import options_of
from clusters.services.base import clean_name, require_operator
from common.errors import Conflict, no_such_field, wrong
from events import services as events
from volumes.backing import clean_options, derived_of
from volumes.choices import BackingKind, Medium
from volumes.models import ClassPlace, Volume, VolumeClass
from volumes.topology import SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accounts.principal import Principal


def default_class(cluster_key: str) -> VolumeClass | None:
    """Return what is taken unasked there; a cluster without one gets it from its options."""
    place = _default_place(cluster_key)
    if place is not None:
        return place.volume_class
    cluster = Cluster.objects.filter(key=cluster_key).first()
    return None if cluster is None else derived_class_ensure(cluster)


def derived_class_ensure(cluster: Cluster) -> VolumeClass:
    """Make the class that says the same as the cluster's options, or bring it up to date.

    Volumes that exist keep what they lie on. One that an operator changed is his.
    """
    kind, options = derived_of(options_of(cluster.options), one_machine=not cluster.runs_images)
    row = VolumeClass.objects.filter(derived=True, places__cluster=cluster).first()
    if row is None:
        return _derive(cluster, kind, options)
    if (row.backing_kind, row.options) != (kind, options):
        row.backing_kind, row.options = kind, options
        row.generation += 1
        row.save(update_fields=["backing_kind", "options", "generation", "updated_at"])
    return row


def cluster_changed(cluster_key: str) -> None:
    """Keep the derived class in line with a cluster that was attached or changed."""
    cluster = Cluster.objects.filter(key=cluster_key).first()
    if cluster is None:
        return
    derived = VolumeClass.objects.filter(derived=True, places__cluster=cluster).exists()
    if derived or _default_place(cluster_key) is None:
        derived_class_ensure(cluster)


def _derive(cluster: Cluster, kind: str, options: dict[str, str]) -> VolumeClass:
    wanted = f"standard-{cluster.key}"[:60]
    taken = set(VolumeClass.objects.filter(key__startswith=wanted).values_list("key", flat=True))
    keys = (wanted, *(f"{wanted}-{n}" for n in range(2, 99)))
    try:
        with transaction.atomic():
            row = VolumeClass.objects.create(
                key=next(k for k in keys if k not in taken),
                name=_("Standard"),
                backing_kind=kind,
                options=options,
                derived=True,
            )
            ClassPlace.objects.create(volume_class=row, cluster=cluster, is_default=True)
    except IntegrityError:  # somebody else made it at the same moment
        raced = _default_place(cluster.key)
        if raced is None:
            raise
        return raced.volume_class
    return row


def _default_place(cluster_key: str) -> ClassPlace | None:
    return (
        ClassPlace.objects.filter(cluster__key=cluster_key, is_default=True)
        .select_related("volume_class")
        .first()
    )


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


_KEY = re.compile(r"\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
MAX_MIB = 2**40
MAX_POSITION = 10_000
MAX_PRICE = Decimal(100_000)


@transaction.atomic
def class_save(
    *, principal: Principal, values: Mapping[str, Any], volume_class: VolumeClass | None = None
) -> VolumeClass:
    """Make or change a class; ``values`` holds what was said, unknown names are refused.

    ``clusters`` are keys of where it is offered, ``default_on`` those where it is taken unasked,
    ``near`` the pools that it stands near, each as ``cluster/pool``.
    """
    require_operator(principal)
    row = _locked(volume_class)
    before = (row.backing_kind, dict(row.options))
    _assign(row, values)
    _check(row)
    if (row.backing_kind, row.options) != before:
        row.derived = False  # an operator's from now on
    row.generation += 1 if row.pk else 0
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        said = _("There is a class with this short name already.")
        raise Conflict(said, code="name-taken", fields={"key": [said]}) from error
    _place(row, values.get("clusters"), values.get("default_on"))
    place_near(row, values.get("near"))
    verb = "volume-class.created" if volume_class is None else "volume-class.changed"
    events.record(actor=principal, verb=verb, target=row, data={"fields": sorted(values)})
    return row


@transaction.atomic
def class_delete(*, principal: Principal, volume_class: VolumeClass) -> None:
    """Forget a class that no volume is of and that no cluster takes unasked."""
    require_operator(principal)
    row = _locked(volume_class)
    live = Volume.objects.filter(volume_class=row, deleted_at__isnull=True).count()
    if live:
        said = ngettext(
            "%(n)d volume is of this class. Disable it instead: it stays, none is added.",
            "%(n)d volumes are of this class. Disable it instead: they stay, none is added.",
            live,
        )
        raise Conflict(said % {"n": live}, code="class-in-use")
    if row.places.filter(is_default=True).exists():
        raise Conflict(
            _("It is the default of a cluster. Make another one the default first."),
            code="class-default",
        )
    Volume.objects.filter(volume_class=row).update(volume_class=None)
    events.record(actor=principal, verb="volume-class.deleted", target=row)
    row.delete()


def _locked(volume_class: VolumeClass | None) -> VolumeClass:
    if volume_class is None:
        return VolumeClass()
    return VolumeClass.objects.select_for_update().get(pk=volume_class.pk)


def _assign(row: VolumeClass, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if name in {"clusters", "default_on", "near"}:
            continue
        if name == "key" and row.pk and value != row.key:
            raise wrong("key", _("The short name stays: volumes and files name it."))
        clean = _CLEAN.get(name)
        if clean is None:
            raise wrong(name, no_such_field(name, _CLEAN))
        setattr(row, name, clean(name, value))


def _check(row: VolumeClass) -> None:
    """Look at what depends on each other."""
    if not row.key:
        raise wrong("key", _("Give it a short name."))
    if not row.name:
        raise wrong("name", _("Give it a name."))
    row.options = clean_options(row.backing_kind, row.options)
    if row.max_size_mib is not None and row.max_size_mib < row.min_size_mib:
        raise wrong("max_size_mib", _("The largest size is below the smallest one."))
    size = row.default_size_mib
    if size is not None and not row.min_size_mib <= size <= (row.max_size_mib or MAX_MIB):
        raise wrong("default_size_mib", _("It must lie between the smallest and largest size."))


def _place(row: VolumeClass, clusters: Any, default_on: Any) -> None:
    """Offer it where it was said; a cluster keeps exactly one default."""
    if clusters is not None:
        wanted = _clusters(clusters, "clusters")
        gone = row.places.exclude(cluster__in=wanted)
        if gone.filter(is_default=True).exists():
            raise wrong("clusters", _("It is the default there. Make another one the default."))
        gone.delete()
        for cluster in wanted:
            ClassPlace.objects.get_or_create(volume_class=row, cluster=cluster)
    _fits_places(row)
    if default_on is None:
        return
    chosen = _clusters(default_on, "default_on")
    mine = {place.cluster_id: place for place in row.places.all()}
    if any(cluster.pk not in mine for cluster in chosen):
        raise wrong("default_on", _("It is not offered there."))
    dropped = [p for p in mine.values() if p.is_default and p.cluster not in chosen]
    if dropped:
        raise wrong(
            "default_on", _("A cluster needs a default. Choose it on the class that is to be it.")
        )
    if chosen and not row.enabled:
        raise wrong("enabled", _("A class that is a default must be enabled."))
    for cluster in chosen:
        ClassPlace.objects.filter(cluster=cluster, is_default=True).exclude(
            volume_class=row
        ).update(is_default=False)
        ClassPlace.objects.filter(cluster=cluster, volume_class=row).update(is_default=True)


def _fits_places(row: VolumeClass) -> None:
    """One machine has folders below its own; NFS and storage classes need a cluster."""
    places = list(row.places.select_related("cluster"))
    on_one = [p for p in places if not p.cluster.runs_images]
    if on_one and (row.backing_kind != BackingKind.DIRECTORY or row.options):
        name = {"name": on_one[0].cluster.label}
        raise wrong(
            "clusters", _("“%(name)s” is one machine: only folders of its own lie there.") % name
        )
    if not row.enabled and any(place.is_default for place in places):
        raise wrong("enabled", _("A class that is a default must be enabled."))


def _clusters(keys: Any, field: str) -> list[Cluster]:
    if not isinstance(keys, list | tuple):
        raise wrong(field, _("A list of clusters."))
    found = list(Cluster.objects.filter(key__in=[str(k) for k in keys]))
    if len(found) != len({str(k) for k in keys}):
        raise wrong(field, _("There is no such cluster."))
    return found


def _line(most: int) -> Callable[[str, Any], str]:
    def clean(field: str, value: Any) -> str:
        text = " ".join(str(value or "").split())
        if len(text) > most or not text.isprintable():
            raise wrong(field, _("At most %(n)d printable characters.") % {"n": most})
        return text

    return clean


def _size(*, empty: bool) -> Callable[[str, Any], int | None]:
    def clean(field: str, value: Any) -> int | None:
        if value in {None, ""} and empty:
            return None
        if type(value) is not int or not 1 <= value <= MAX_MIB:
            raise wrong(field, _("A whole number of MiB, at least 1."))
        return value

    return clean


def _flag(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise wrong(field, _("True or false."))
    return value


def _choice(known: list[str], *, empty: bool) -> Callable[[str, Any], str]:
    def clean(field: str, value: Any) -> str:
        if value in known or (empty and value == ""):
            return str(value)
        raise wrong(field, _("Choose one of: %(names)s.") % {"names": ", ".join(known)})

    return clean


def _price(field: str, value: Any) -> Decimal:
    try:
        price = Decimal(str(value)).quantize(Decimal("0.0001"))
    except InvalidOperation:
        price = Decimal(-1)
    if not 0 <= price < MAX_PRICE:
        raise wrong(field, _("A price from 0."))
    return price


def _position(field: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_POSITION:
        raise wrong(field, _("A whole number from 0."))
    return value


def _key(field: str, value: Any) -> str:
    name = clean_name(value, field)
    if not _KEY.match(name):
        raise wrong(field, _("Small letters, digits and “-”; a letter or digit first."))
    return name


def _options(field: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise wrong(field, _("Options are names and texts."))
    return {str(k): v for k, v in value.items() if v != ""}


_CLEAN: dict[str, Callable[[str, Any], Any]] = {
    "key": _key,
    "name": _line(80),
    "description": _line(300),
    "medium": _choice(list(Medium.values), empty=True),
    "speed": _line(120),
    "price": _price,
    "backing_kind": _choice(list(BackingKind.values), empty=False),
    "options": _options,
    "can_snapshot": _flag,
    "min_size_mib": _size(empty=False),
    "max_size_mib": _size(empty=True),
    "default_size_mib": _size(empty=True),
    "enabled": _flag,
    "position": _position,
}
