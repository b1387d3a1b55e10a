from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "usage"

    def ready(self) -> None:
        from runtime.reconcilers import on_transition
        from usage.listeners import keep_intervals

        on_transition(keep_intervals)
