from django.apps import AppConfig


class CredentialsConfig(AppConfig):
    name = "credentials"

    def ready(self) -> None:
        from credentials import probe, rules, selectors
        from projects import registries
        from runtime import gateway

        registries.provide(selectors.registries_of)
        gateway.register(probe.QUESTION, probe.answer, outside=True)
        rules.connect()
