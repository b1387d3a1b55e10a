from django.apps import AppConfig


class LoadersConfig(AppConfig):
    name = "loaders"

    def ready(self) -> None:
        from clusters.registry import register_lookup
        from clusters.where import lookup_of
        from loaders import listeners, rules, selectors
        from loaders.kind import LOAD
        from loaders.models import Load
        from loaders.reconciler import LoadReconciler
        from loaders.runtime_spec import name_of
        from loaders.ui.pages import PAGES
        from runtime import reconcilers
        from work import kinds, needs
        from work.ui import pages

        kinds.register(LOAD)
        pages.register(PAGES)
        reconcilers.register(LoadReconciler())
        reconcilers.on_transition(listeners.on_transition)
        rules.connect()
        register_lookup(lookup_of(Load, name_of))
        needs.register(
            Load.KIND,
            needs.Needable(
                visible=selectors.loads_visible_to,
                get=selectors.load_for_need,
                missing=selectors.missing,
            ),
        )
