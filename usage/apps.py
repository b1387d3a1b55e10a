from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "usage"

    def ready(self) -> None:
        from queues import hooks as queues
        from runtime.reconcilers import on_transition
        from usage.listeners import keep_intervals
        from usage.past import past_work

        on_transition(keep_intervals)
        queues.past_work.register(past_work)
