from django.apps import AppConfig


class NotebooksConfig(AppConfig):
    name = "notebooks"

    def ready(self) -> None:
        from functools import partial

        from clusters.registry import register_lookup
        from clusters.where import lookup_of
        from hubapi import registry
        from images.services import register_chooser
        from notebooks import hub, kube_pods, listeners, references, selectors
        from notebooks.kind import WORKSPACE
        from notebooks.models import Workspace
        from notebooks.reconciler import WorkspaceReconciler
        from notebooks.ui.pages import PAGES
        from parking.hooks import own_rules
        from projects.namespaces import pods_of_people
        from runtime import reconcilers
        from work import environments, kinds
        from work.ui import pages
        from work.ui.launch import likely_cluster

        kinds.register(WORKSPACE)
        pages.register(PAGES)
        reconcilers.register(WorkspaceReconciler())
        reconcilers.on_transition(listeners.on_transition)
        registry.register(hub.WorkspaceLookup())
        references.connect()
        register_lookup(lookup_of(Workspace, lambda row: row.short_id))
        pods_of_people.register(kube_pods.own_pods)
        register_chooser(partial(likely_cluster, WORKSPACE))
        environments.offered.register(selectors.environments_of)
        own_rules.register(selectors.idle_rules)
