from django.apps import AppConfig


class CommonConfig(AppConfig):
    name = "common"

    def ready(self) -> None:
        from django.db.backends.signals import connection_created

        from common.database import keep_plans_fresh

        connection_created.connect(keep_plans_fresh)
