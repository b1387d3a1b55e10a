from django.apps import AppConfig


class QuotasConfig(AppConfig):
    name = "quotas"

    def ready(self) -> None:
        from events import verbs
        from quotas.choices import limits_in_words
        from quotas.listeners import release_when_gone
        from runtime.reconcilers import on_transition

        verbs.register_details(("quota.changed",), limits_in_words)
        on_transition(release_when_gone)
