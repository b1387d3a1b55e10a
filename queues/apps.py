from django.apps import AppConfig


class QueuesConfig(AppConfig):
    name = "queues"

    def ready(self) -> None:
        from clusters import hooks
        from queues import admission, local
        from runtime import ports

        ports.provide_admission(admission)
        hooks.devices_added.register(local.grant_waiting)
