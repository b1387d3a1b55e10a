from django.apps import AppConfig


class ClustersConfig(AppConfig):
    name = "clusters"

    def ready(self) -> None:
        from clusters.places import ClusterPlaces
        from runtime import ports

        ports.provide(ClusterPlaces())
