from django.apps import AppConfig


class LoadersConfig(AppConfig):
    name = "loaders"

    def ready(self) -> None:
        from clusters.registry import register_lookup
        from loaders import listeners, rules, where
        from loaders.reconciler import LoadReconciler
        from runtime import reconcilers

        reconcilers.register(LoadReconciler())
        reconcilers.on_transition(listeners.on_transition)
        rules.connect()
        register_lookup(where.lookup)
