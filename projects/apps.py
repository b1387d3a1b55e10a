from django.apps import AppConfig


class ProjectsConfig(AppConfig):
    name = "projects"

    def ready(self) -> None:
        from accounts import groups, hooks, invitations, scopes
        from common.drf.viewsets import register_idempotency
        from notifications.kinds import register_mail_url
        from projects import access, idempotency, selectors, services
        from projects.gate import InvitationGate
        from projects.reconciler import ProjectReconciler, forget_people
        from projects.services.invitations import mail_link
        from projects.services.life import SCOPE_CREATE
        from runtime import reconcilers

        register_idempotency(idempotency)
        reconcilers.register(ProjectReconciler())
        reconcilers.on_transition(forget_people)
        groups.register(services.groups_sync)
        invitations.register(InvitationGate())
        hooks.offer_projects(selectors.choices_for_tokens)
        register_mail_url("project.invited", mail_link)
        for permission, text in access.PERMISSION_TEXT.items():
            scopes.register(permission, text)
        scopes.register(SCOPE_CREATE, selectors.CREATE_TEXT)
