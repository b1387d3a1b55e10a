"""The row of this machine itself, which nobody attaches."""

from django.conf import settings
from django.utils.translation import gettext_noop

from clusters.models import Cluster
from runtime.models import ONE_MACHINE


def ensure_local_cluster() -> Cluster:
    """Return the row of this machine, made when missing, with the driver that settings name."""
    made = {"name": gettext_noop("This machine"), "driver": settings.BERTH_LOCAL_DRIVER}
    cluster, _made = Cluster.objects.get_or_create(key=ONE_MACHINE, defaults=made)
    if cluster.driver != settings.BERTH_LOCAL_DRIVER:
        cluster.driver = settings.BERTH_LOCAL_DRIVER
        cluster.save(update_fields=["driver"])
    return cluster
