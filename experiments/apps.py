from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "experiments"

    def ready(self) -> None:
        from experiments import ai_platform, contents, selectors
        from jobs.ai_platform import searches
        from serving.services.sources import metrics_of

        searches.register(ai_platform.Submitted())
        contents.connect()
        metrics_of.register(selectors.metrics_of_run)
