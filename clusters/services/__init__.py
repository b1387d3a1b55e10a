"""Writing what is known about clusters, and what operators decide about them."""

from clusters.installed import ensure_local_cluster
from clusters.services.attach import Attachment, cluster_attach, cluster_update, kubeconfig_replace
from clusters.services.detach import cluster_detach, cluster_forget
from clusters.services.health import (
    checks_ask,
    checks_store,
    health_refresh,
    health_refresh_if_older,
    health_store,
    seconds_to_next_check,
)
from clusters.services.nodes import nodes_store
from clusters.services.parts import (
    flavor_delete,
    flavor_save,
    network_delete,
    network_save,
    pool_delete,
    pool_save,
)

__all__ = [
    "Attachment",
    "checks_ask",
    "checks_store",
    "cluster_attach",
    "cluster_detach",
    "cluster_forget",
    "cluster_update",
    "ensure_local_cluster",
    "flavor_delete",
    "flavor_save",
    "health_refresh",
    "health_refresh_if_older",
    "health_store",
    "kubeconfig_replace",
    "network_delete",
    "network_save",
    "nodes_store",
    "pool_delete",
    "pool_save",
    "seconds_to_next_check",
]
