from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "experiments"

    def ready(self) -> None:
        from experiments import ai_platform, contents
        from jobs.ai_platform import searches

        searches.register(ai_platform.Submitted())
        contents.connect()
