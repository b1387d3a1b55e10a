from django.apps import AppConfig


class QuotasConfig(AppConfig):
    name = "quotas"

    def ready(self) -> None:
        from quotas.listeners import release_when_gone
        from runtime.reconcilers import on_transition

        on_transition(release_when_gone)
