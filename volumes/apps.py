from django.apps import AppConfig


class VolumesConfig(AppConfig):
    name = "volumes"

    def ready(self) -> None:
        from clusters.registry import register_lookup
        from runtime.reconcilers import register
        from volumes import rules, where
        from volumes.reconciler import VolumeReconciler

        register(VolumeReconciler())
        rules.connect()
        register_lookup(where.lookup)
