from django.apps import AppConfig


class ServingConfig(AppConfig):
    name = "serving"

    def ready(self) -> None:
        from clusters.registry import register_lookup
        from clusters.where import lookup_of
        from jobs.runtime_spec import secrets_with
        from jobs.ui.artifacts import offers
        from jobs.ui.panels import has_no_curves
        from parking import hooks
        from runtime import gateway, reconcilers
        from serving import contents, listeners, mlflow
        from serving import environments as own_environments
        from serving.kind import ENDPOINT
        from serving.models import Endpoint
        from serving.reconciler import EndpointReconciler
        from serving.selectors import called_at
        from serving.services.batch_access import secrets_of
        from serving.ui import batch
        from serving.ui.models import offer_of_run
        from serving.ui.pages import PAGES
        from work import environments, kinds
        from work.ui import pages, panels

        contents.connect()
        gateway.register(mlflow.QUESTION, mlflow.answer, outside=True)
        panels.panels.register(batch.panel)
        has_no_curves.register(batch.predicts)
        hooks.used_at.register(called_at)
        secrets_with.register(secrets_of)
        environments.apart.register(own_environments.offered_apart)
        environments.coming.register(own_environments.waits_job)
        offers.register(offer_of_run)
        kinds.register(ENDPOINT)
        pages.register(PAGES)
        reconcilers.register(EndpointReconciler())
        reconcilers.on_transition(listeners.on_transition)
        register_lookup(lookup_of(Endpoint, lambda row: row.short_id))
