from django.apps import AppConfig


class ClustersConfig(AppConfig):
    name = "clusters"

    def ready(self) -> None:
        from clusters.services.health import ClusterRegistryProvider
        from runtime import ports

        ports.provide(ClusterRegistryProvider())
