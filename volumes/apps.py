from django.apps import AppConfig


class VolumesConfig(AppConfig):
    name = "volumes"

    def ready(self) -> None:
        from clusters import hooks as clusters
        from clusters.registry import register_lookup
        from runtime.reconcilers import register
        from volumes import backing, rules
        from volumes.reconciler import SnapshotReconciler, VolumeReconciler
        from volumes.services.classes import cluster_changed

        register(VolumeReconciler())
        register(SnapshotReconciler())
        rules.connect()
        register_lookup(backing.lookup)
        clusters.cluster_changed.register(cluster_changed)
