"""Implements ``runtime.ports.ClusterProvider`` on the table of clusters."""

from collections.abc import Sequence

from clusters import registry
from clusters.models import Cluster
from runtime.protocol import Driver, NodeChanges
from runtime.routers.base import Router


class ClusterRegistryProvider:
    def keys(self) -> Sequence[str]:
        return list(Cluster.objects.filter(enabled=True).values_list("key", flat=True))

    def driver_for(self, cluster_key: str) -> Driver:
        return registry.driver_for(cluster_key)

    def router(self) -> Router:
        return registry.router()

    def nodes_store(self, cluster_key: str, changes: NodeChanges) -> None:
        from clusters.services.nodes import nodes_store

        nodes_store(cluster_key=cluster_key, changes=changes)
