from django.apps import AppConfig


class VolumesConfig(AppConfig):
    name = "volumes"

    def ready(self) -> None:
        from runtime.reconcilers import register
        from volumes import rules
        from volumes.reconciler import VolumeReconciler

        register(VolumeReconciler())
        rules.connect()
