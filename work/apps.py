from django.apps import AppConfig


class WorkConfig(AppConfig):
    name = "work"
    verbose_name = "Work"

    def ready(self) -> None:
        from runtime import reconcilers
        from work import listeners, reclaim, rules

        rules.connect()
        reconcilers.on_transition(reclaim.on_transition)
        reconcilers.on_transition(listeners.on_transition)
