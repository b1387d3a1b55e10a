from django.apps import AppConfig


class QueuesConfig(AppConfig):
    name = "queues"

    def ready(self) -> None:
        from clusters import hooks
        from placement import fleet
        from queues import admission, local
        from queues.standing import sight_of
        from runtime import ports

        ports.provide_admission(admission)
        fleet.provide_queues(sight_of)
        hooks.devices_added.register(local.grant_waiting)
