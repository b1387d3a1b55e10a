"""Buttons: do it, say so, go back to the page. All work without a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from notebooks.models import Workspace
from notebooks.ui.shared import go, whole
from notebooks.ui.views import Detail, Settings, WorkspaceView
from projects.access import Permission
from work.services import (
    image_renew,
    workload_delete,
    workload_extend,
    workload_share,
    workload_start,
    workload_stop,
    workload_unshare,
)
from work.services.attachments import warning_of_full

CREATE: Mapping[str, Permission] = {"POST": Permission.WORKSPACE_CREATE}


class Act(WorkspaceView):
    """A press on a button: do it, say so, go back to the page. Works without a script."""

    required_permissions: ClassVar[Mapping[str, Permission]] = CREATE
    query: ClassVar[str] = ""

    def post(self, request: HttpRequest, project: str, workspace: str) -> HttpResponse:  # noqa: ARG002
        row = self.workspace()
        said = self.act(row, request)
        messages.success(request, said)
        return go(request, row.get_absolute_url() + self.query)

    def act(self, row: Workspace, request: HttpRequest) -> str:
        raise NotImplementedError


class Start(Act):
    query = "?open=1"

    def act(self, row: Workspace, request: HttpRequest) -> str:
        workload_start(principal=self.principal, row=row)
        if full := warning_of_full(row):
            messages.warning(request, full)
        return _("“%(name)s” is starting.") % {"name": row.name}


class Stop(Act):
    # the owner, or who may manage: services decide
    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.WORKSPACE_READ}
    stands_on = Detail

    def act(self, row: Workspace, request: HttpRequest) -> str:
        said = request.POST.get("reason", "")
        workload_stop(principal=self.principal, row=row, said=said)
        return _("“%(name)s” is stopping. Its files are kept.") % {"name": row.name}


class Repin(Act):
    """What the image's tag means now, where the registry no longer has what is pinned."""

    def act(self, row: Workspace, request: HttpRequest) -> str:  # noqa: ARG002
        pinned = row.image_digest
        row = image_renew(principal=self.principal, row=row)
        if row.image_digest == pinned:
            return _("The tag still means the image that is pinned.")
        return _("“%(name)s” takes the newest image of its tag.") % {"name": row.name}


class Extend(Act):
    def act(self, row: Workspace, request: HttpRequest) -> str:
        minutes = whole(request.POST.get("minutes", "60"), "minutes")
        workload_extend(principal=self.principal, row=row, minutes=minutes)
        text = ngettext(
            "“%(name)s” ends %(n)d minute later.", "“%(name)s” ends %(n)d minutes later.", minutes
        )
        return text % {"name": row.name, "n": minutes}


class ShareWith(Act):
    stands_on = Detail

    def act(self, row: Workspace, request: HttpRequest) -> str:
        username = request.POST.get("username", "")[:64]
        workload_share(principal=self.principal, row=row, username=username)
        return _("%(who)s may open “%(name)s” now.") % {"who": username, "name": row.name}


class Unshare(Act):
    stands_on = Detail

    def act(self, row: Workspace, request: HttpRequest) -> str:
        username = request.POST.get("username", "")[:64]
        workload_unshare(principal=self.principal, row=row, username=username)
        return _("%(who)s may not open “%(name)s” any more.") % {
            "who": username,
            "name": row.name,
        }


class Delete(Act):
    stands_on = Settings
    # the owner, or who may manage: services decide
    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.WORKSPACE_READ}

    def post(self, request: HttpRequest, project: str, workspace: str) -> HttpResponse:  # noqa: ARG002
        row = self.workspace()
        typed = request.POST.get("confirm", "")
        workload_delete(principal=self.principal, row=row, typed_name=typed)
        messages.success(request, _("“%(name)s” is being deleted.") % {"name": row.name})
        return go(request, reverse("notebooks:list", kwargs={"project": self.project.slug}))
