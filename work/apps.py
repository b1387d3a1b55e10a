from django.apps import AppConfig


class WorkConfig(AppConfig):
    name = "work"
    verbose_name = "Work"

    def ready(self) -> None:
        from work import rules

        rules.connect()
