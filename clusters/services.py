"""Writing what is known about clusters."""

from django.conf import settings

from clusters.models import Cluster


def ensure_local_cluster() -> Cluster:
    """Return the row of this machine, made when missing, with the driver that settings name."""
    cluster, _made = Cluster.objects.get_or_create(
        key="local", defaults={"name": "This machine", "driver": settings.BERTH_LOCAL_DRIVER}
    )
    if cluster.driver != settings.BERTH_LOCAL_DRIVER:
        cluster.driver = settings.BERTH_LOCAL_DRIVER
        cluster.save(update_fields=["driver"])
    return cluster
