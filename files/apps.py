from django.apps import AppConfig


class FilesConfig(AppConfig):
    name = "files"

    def ready(self) -> None:
        from clusters.registry import register_lookup
        from clusters.where import lookup_of
        from files import below, reconciler, rules, selectors
        from files.models import FileSession
        from files.reconciler import FileSessionReconciler
        from runtime import gateway
        from runtime.reconcilers import register

        register(FileSessionReconciler())
        register_lookup(lookup_of(FileSession, reconciler.name_of))
        gateway.wanted.register(selectors.any_wanted)
        gateway.register(below.QUESTION, below.answer)
        rules.connect()
