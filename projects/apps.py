from django.apps import AppConfig


class ProjectsConfig(AppConfig):
    name = "projects"

    def ready(self) -> None:
        from django.utils.translation import gettext_lazy

        from accounts import hooks
        from accounts.principal import register_scope
        from accounts.ui import add_tab
        from clusters import hooks as clusters
        from common.drf.views import register_idempotency
        from events import verbs
        from notifications.kinds import register_mail_url
        from projects import access, middleware, namespaces, reconciler, selectors
        from projects.choices import roles_in_words
        from projects.reconciler import ProjectReconciler, forget_people
        from projects.services import kube, members
        from projects.services.invitations import InvitationGate, mail_link
        from projects.services.life import SCOPE_CREATE
        from runtime import ports, reconcilers

        register_idempotency(middleware)
        verbs.register_details(
            ("member.added", "member.role-changed", "member.removed", "member.left"), roles_in_words
        )
        reconcilers.register(ProjectReconciler())
        reconcilers.register(reconciler.PlaceReconciler())
        reconcilers.on_transition(forget_people)
        reconcilers.on_transition(reconciler.note_repairs)
        reconcilers.on_transition(namespaces.wake_waiting)
        reconcilers.on_transition(namespaces.pods_changed)
        ports.provide_tenants(namespaces.tenant_ready)
        namespaces.connect()
        kube.connect()
        clusters.cluster_changed.register(namespaces.cluster_changed)
        clusters.project_clusters.register(namespaces.clusters_of)
        hooks.groups_known.register(members.groups_sync)
        hooks.register_gate(InvitationGate())
        add_tab("projects:kubeconfigs", gettext_lazy("Kubeconfigs"), namespaces.any_tenant_cluster)
        hooks.project_choices.register(selectors.choices_for_tokens)
        register_mail_url("project.invited", mail_link)
        for permission, text in access.PERMISSION_TEXT.items():
            register_scope(permission, text)
        register_scope(SCOPE_CREATE, selectors.CREATE_TEXT)
