"""The cluster that Berth itself runs in: a row that only the operator's settings make.

Its credential is the mounted service account of worker and gate, never anything stored.
"""

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext_noop

from clusters import hooks
from clusters.models import KUBERNETES, Cluster
from clusters.options import check, options_of
from common.clock import now
from runtime.models import ONE_MACHINE


@transaction.atomic
def ensure_in_cluster() -> Cluster | None:
    """Make or update the row; None when Berth runs outside of any cluster it uses."""
    key = settings.BERTH_IN_CLUSTER
    if not key:
        return None
    wanted = check(options_of(settings.BERTH_IN_CLUSTER_OPTIONS))
    name = settings.BERTH_IN_CLUSTER_NAME or key
    row, made = Cluster.objects.select_for_update().get_or_create(
        key=key, defaults={"name": name, "driver": KUBERNETES, "options": wanted.as_json()}
    )
    changed = options_of(row.options) != wanted
    if not made and (changed or row.name != name):
        row.options, row.name, row.revision = wanted.as_json(), name, row.revision + 1
        row.checks_asked_at = now() if changed else row.checks_asked_at
        row.save(update_fields=["options", "name", "revision", "checks_asked_at"])
        hooks.cluster_changed(key)
    return row


def is_own(cluster: Cluster) -> bool:
    """Whether this row stands for the cluster that Berth runs in."""
    return bool(settings.BERTH_IN_CLUSTER) and cluster.key == settings.BERTH_IN_CLUSTER


def kubectl_reaches(cluster: Cluster) -> bool:
    """Whether people's kubectl can be told an address: the one that we use here is a pod's."""
    return not is_own(cluster) or bool(options_of(cluster.options).kube_api_url)


# The row of this machine itself, which nobody attaches, and the GPUs that settings give it.


def has_simulated_gpus(cluster_key: str) -> bool:
    """Whether the GPUs of this cluster are simulated: all of them, or none."""
    return cluster_key == ONE_MACHINE and bool(settings.BERTH_SIMULATED_GPUS)


def own_gpus() -> list[str]:
    """Return the names of the GPUs that this machine really has."""
    from runtime.drivers.local.gpus import NvmlSource

    return [device.name for device in NvmlSource().devices()]


def ensure_local_cluster() -> Cluster:
    """Return the row of this machine, made when missing, with the driver that settings name."""
    made = {"name": gettext_noop("This machine"), "driver": settings.BERTH_LOCAL_DRIVER}
    cluster, _made = Cluster.objects.get_or_create(key=ONE_MACHINE, defaults=made)
    if cluster.driver != settings.BERTH_LOCAL_DRIVER:
        cluster.driver = settings.BERTH_LOCAL_DRIVER
        cluster.save(update_fields=["driver"])
    return cluster
