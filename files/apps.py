from django.apps import AppConfig


class FilesConfig(AppConfig):
    name = "files"

    def ready(self) -> None:
        from clusters.registry import register_lookup
        from files import rules, runtime_spec, selectors
        from files.reconciler import FileSessionReconciler
        from files.ui import tab
        from runtime import gateway
        from runtime.reconcilers import register

        register(FileSessionReconciler())
        register_lookup(runtime_spec.lookup)
        gateway.wanted.register(selectors.any_wanted)
        rules.connect()
        tab.register()
