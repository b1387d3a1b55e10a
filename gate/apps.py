from django.apps import AppConfig


class GateConfig(AppConfig):
    name = "gate"

    def ready(self) -> None:
        from gate import answers, objects
        from gate.ui import tabs

        answers.register()
        objects.register()
        tabs.register()
