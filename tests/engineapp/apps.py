from django.apps import AppConfig


class EngineAppConfig(AppConfig):
    name = "tests.engineapp"
    label = "engineapp"

    def ready(self) -> None:
        from runtime import reconcilers
        from tests.engineapp.reconciler import ThingReconciler

        reconcilers.register(ThingReconciler())
