from django.apps import AppConfig


class ProjectsConfig(AppConfig):
    name = "projects"

    def ready(self) -> None:
        from common.drf.viewsets import register_idempotency
        from projects import idempotency

        register_idempotency(idempotency)
