from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    name = "budgets"

    def ready(self) -> None:
        from budgets.choices import changes_in_words
        from events import verbs

        verbs.register_details(("budget.changed",), changes_in_words)
