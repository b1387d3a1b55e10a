"""Writing what is known about clusters, and what operators decide about them."""

from clusters.placement import (
    engine_network,
    engine_placement,
    kinds_for,
    launch_refusal,
    network_for,
    networks_for,
    placement_for,
    pools_for,
    usable_clusters,
)
from clusters.services.attach import (
    Attachment,
    cluster_attach,
    cluster_detach,
    cluster_update,
    kubeconfig_replace,
)
from clusters.services.checks import checks_ask, checks_store
from clusters.services.flavors import flavor_delete, flavor_save
from clusters.services.health import (
    ensure_local_cluster,
    health_refresh,
    health_refresh_if_older,
    health_store,
    seconds_to_next_check,
)
from clusters.services.nodes import nodes_store
from clusters.services.pools import network_delete, network_save, pool_delete, pool_save

__all__ = [
    "Attachment",
    "checks_ask",
    "checks_store",
    "cluster_attach",
    "cluster_detach",
    "cluster_update",
    "engine_network",
    "engine_placement",
    "ensure_local_cluster",
    "flavor_delete",
    "flavor_save",
    "health_refresh",
    "health_refresh_if_older",
    "health_store",
    "kinds_for",
    "kubeconfig_replace",
    "launch_refusal",
    "network_delete",
    "network_for",
    "network_save",
    "networks_for",
    "nodes_store",
    "placement_for",
    "pool_delete",
    "pool_save",
    "pools_for",
    "seconds_to_next_check",
    "usable_clusters",
]
