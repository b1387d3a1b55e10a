from django.apps import AppConfig


class WorkConfig(AppConfig):
    name = "work"
    verbose_name = "Work"

    def ready(self) -> None:
        from budgets import hooks as budgets
        from hubapi.notices import notices
        from queues import hooks as queues
        from runtime import reconcilers
        from work import budgets as work_budgets
        from work import listeners, reclaim, rules
        from work.past import past_work
        from work.services.limits import limit_notices

        rules.connect()
        notices.register(limit_notices)
        notices.register(reclaim.reclaim_notices)
        queues.past_work.register(past_work)
        budgets.looked.register(work_budgets.looked)
        reconcilers.on_transition(reclaim.on_transition)
        reconcilers.on_transition(listeners.on_transition)
