from django.apps import AppConfig


class QueuesConfig(AppConfig):
    name = "queues"

    def ready(self) -> None:
        from clusters import hooks
        from events import verbs
        from placement import fleet
        from queues import admission, kueue, local, reconciler
        from queues.choices import changes_in_words
        from queues.hooks import tree_changed
        from queues.standing import left_on, sight_of
        from runtime import gateway, ports, reconcilers

        ports.provide_admission(admission)
        gateway.register(kueue.WAITING, kueue.answer_waiting)
        verbs.register_details(("queue.tree-changed",), changes_in_words)
        fleet.provide_queues(sight_of)
        fleet.provide_shares(left_on)
        hooks.devices_added.register(local.grant_waiting)
        hooks.cluster_changed.register(kueue.cluster_changed)
        tree_changed.register(kueue.tree_changed)
        reconcilers.register(reconciler.QueuesReconciler())
        reconcilers.on_transition(reconciler.note_restored)
        reconcilers.on_transition(kueue.place_changed)
