from django.apps import AppConfig


class QueuesConfig(AppConfig):
    name = "queues"

    def ready(self) -> None:
        from clusters import hooks
        from events import verbs
        from placement import fleet
        from queues import admission, local
        from queues.choices import changes_in_words
        from queues.standing import LineSight
        from runtime import ports

        ports.provide_admission(admission)
        verbs.register_details(("queue.tree-changed",), changes_in_words)
        fleet.provide_queues(LineSight)
        hooks.devices_added.register(local.grant_waiting)
