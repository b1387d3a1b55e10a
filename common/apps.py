from django.apps import AppConfig


class CommonConfig(AppConfig):
    name = "common"

    def ready(self) -> None:
        from django.core.checks import register
        from django.db.backends.signals import connection_created

        from common.database import keep_plans_fresh
        from common.money import currency_is_known

        register(currency_is_known)
        connection_created.connect(keep_plans_fresh)
