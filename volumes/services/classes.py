"""The class that each cluster has without anybody's doing, and what is taken unasked."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from clusters.models import Cluster
from clusters.options import options_of
from volumes.backing import derived_of
from volumes.models import ClassPlace, VolumeClass


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
    try:
        with transaction.atomic():
            row = VolumeClass.objects.create(
                key=_free_key(cluster.key),
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


def _free_key(cluster_key: str) -> str:
    wanted = f"standard-{cluster_key}"[:60]
    taken = set(VolumeClass.objects.filter(key__startswith=wanted).values_list("key", flat=True))
    return next(k for k in (wanted, *(f"{wanted}-{n}" for n in range(2, 99))) if k not in taken)


def _default_place(cluster_key: str) -> ClassPlace | None:
    return (
        ClassPlace.objects.filter(cluster__key=cluster_key, is_default=True)
        .select_related("volume_class")
        .first()
    )
