from django.apps import AppConfig


class ServingConfig(AppConfig):
    name = "serving"

    def ready(self) -> None:
        from clusters.registry import register_lookup
        from clusters.where import lookup_of
        from jobs.ui.artifacts import offers
        from runtime import gateway, reconcilers
        from serving import contents, mlflow
        from serving.kind import ENDPOINT
        from serving.models import Endpoint
        from serving.reconciler import EndpointReconciler
        from serving.runtimes import environments_apart
        from serving.ui import batch
        from serving.ui.models import offer_of_run
        from serving.ui.pages import PAGES
        from work import environments, kinds
        from work.ui import pages, panels

        contents.connect()
        gateway.register(mlflow.QUESTION, mlflow.answer, outside=True)
        panels.panels.register(batch.panel)
        environments.apart.register(environments_apart)
        offers.register(offer_of_run)
        kinds.register(ENDPOINT)
        pages.register(PAGES)
        reconcilers.register(EndpointReconciler())
        register_lookup(lookup_of(Endpoint, lambda row: row.short_id))
