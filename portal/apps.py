from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "portal"

    def ready(self) -> None:
        from portal import celery  # noqa: F401 - shared tasks belong to this Celery application
