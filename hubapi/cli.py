"""The command line inside a workspace: its launch's own token becomes one of the API, for as long.

It may run and read jobs of that project as the workspace's owner, and nothing else. There is one
for each launch, derived like its other secrets, so asking again makes no more of them.
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _

from accounts.models import ApiToken
from accounts.services.tokens import digest_of
from common.clock import now
from common.errors import Forbidden
from hubapi import registry, services
from hubapi.api import holder_from, hub_api
from hubapi.models import TokenKind
from projects.access import Permission
from projects.models import Project

LIFE = timedelta(hours=12)  # from the last time that it was asked for
_SHOWN = 12  # of the secret, to recognise it
SCOPES = (
    Permission.PROJECT_READ,
    Permission.WORKSPACE_READ,
    Permission.JOB_CREATE,
    Permission.JOB_READ,
    Permission.VOLUME_READ,
    Permission.VOLUME_USE,
    Permission.CREDENTIAL_READ,
    Permission.CREDENTIAL_USE,
    Permission.LOAD_READ,
)


@hub_api("POST")
def token(request: HttpRequest) -> HttpResponse:
    """Give the workload whose token it carries what its owner's command line needs."""
    holder = holder_from(request, TokenKind.SERVER)
    uid, owner = holder.info.workload_uid, holder.user
    project = Project.objects.filter(uid=holder.info.project_uid).first()
    if project is None or not owner.is_active:
        raise Forbidden("This token is not valid here.")
    if any(registry.visitors(other) for other in registry.beside(uid)):
        message = _(
            "Others may open a workspace of yours in this project: sign in with your own token "
            "(berth login)."
        )
        raise Forbidden(message)
    secret = services.command_line_secret(uid, holder.info.launch)
    row, _made = ApiToken.objects.get_or_create(
        digest=digest_of(secret),
        defaults={
            "user": owner,
            "name": f"{_('Workspace')} {holder.info.name}"[:80],
            "prefix": secret[:_SHOWN],
            "scopes": [str(scope) for scope in SCOPES],
            "project_uids": [str(project.uid)],
            "expires_at": now() + LIFE,
        },
    )
    if row.revoked_at is not None:
        raise Forbidden(_("The token of this workspace was revoked; its next start has another."))
    ApiToken.objects.filter(pk=row.pk).update(expires_at=now() + LIFE)
    told = {"url": settings.BERTH_PUBLIC_URL, "token": secret, "project": project.slug}
    return JsonResponse({**told, "workspace": holder.info.short_id})
