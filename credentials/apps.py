from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class CredentialsConfig(AppConfig):
    name = "credentials"

    def ready(self) -> None:
        from accounts.ui import add_tab
        from credentials import probe, rules, selectors
        from projects import namespaces
        from runtime import gateway

        namespaces.provide_registries(selectors.registries_of)
        gateway.register(probe.QUESTION, probe.answer, outside=True)
        rules.connect()
        add_tab("credentials:own", _("Credentials"), lambda: True)
