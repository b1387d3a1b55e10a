from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class WebhooksConfig(AppConfig):
    name = "webhooks"

    def ready(self) -> None:
        from accounts.ui import add_tab
        from notifications import hooks
        from webhooks import services

        hooks.told.register(services.queue)
        add_tab("webhooks:own", _("Webhooks"), lambda: True)
