"""Terminal, files, and what the cluster holds: pages of one workspace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from accounts import crypto
from clusters.installed import kubectl_reaches
from common.errors import Forbidden, NotFound
from common.ui.views import PlatformView
from gate import rpc
from gate.access import gate_url
from notebooks import where
from notebooks.models import Workspace
from notebooks.ssh import ssh_of
from notebooks.ui.views import WorkspaceView
from projects.access import Permission
from projects.services.kube import no_address
from runtime.protocol import Phase
from work.selectors import access_of, is_owner

RUNNING = "gate/_running.html"  # what of a page changes by itself: whether the workspace runs


class GateView(WorkspaceView):
    """A page about a workspace on a cluster."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": Permission.WORKSPACE_READ}

    def shown(self, row: Workspace, part: str, context: Mapping[str, Any] | None = None) -> Any:
        """Render the page; on one machine one that says where all of this is."""
        if where.cluster_of(row) is None:
            return self.render(self.page(row), template="gate/one_machine.html")
        return self.render(self.gate(row, part, context))

    def gate(self, row: Workspace, part: str, context: Mapping[str, Any] | None = None) -> Any:
        ssh = ssh_of(row)
        return self.page(
            row,
            {
                "part": part,
                "gate_url": gate_url(row, part, for_page=True),
                "gate_socket": gate_url(row, part, socket=True, for_page=True),
                "gate_way": f"{part}/{row.short_id}",
                "is_running": row.shown_phase == Phase.RUNNING,
                "is_on_its_way": row.shown_phase in {Phase.PENDING, Phase.STARTING},
                "ssh_command": ssh.command if ssh else "",
                **(context or {}),
            },
        )


class Terminal(GateView):
    template_name = "gate/terminal.html"
    partial_name = RUNNING
    tab = "terminal"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:  # noqa: ARG002
        row = self.row()
        if not access_of(self.principal.user, row):
            raise Forbidden(_("Only its owner, and the people they let in, may open a workspace."))
        return self.shown(row, self.tab)


class Files(Terminal):
    template_name = "gate/files.html"
    tab = "files"


class Ticket(PlatformView):
    """Lets who is signed in through the gate for a minute: a script asks, a link is led there.

    What they may do there is asked by the gate.
    """

    required_platform = "user"
    WAY = re.compile(r"[a-z]+/([A-Za-z0-9-]+)(/[A-Za-z0-9]+)*")

    def get(self, request: HttpRequest, way: str) -> HttpResponse:
        if request.headers.get("Sec-Fetch-Site", "none") not in {"same-origin", "none"}:
            raise Forbidden(_("Only pages of the portal may do this."), code="foreign-origin")
        found = self.WAY.fullmatch(way)
        if found is None:
            raise NotFound(_("There is no such act."))
        session = request.session.session_key or ""
        ticket = crypto.issue_ticket(crypto.Ticket(session, self.principal.user.pk, found[1]))
        if request.headers.get("Accept") == "application/json":
            response: HttpResponse = JsonResponse({"ticket": ticket})
        else:
            query = f"{request.META['QUERY_STRING']}&{urlencode({'ticket': ticket})}".lstrip("&")
            there = f"{settings.BERTH_GATE_PAGES_URL}/gate/{way}?{query}"
            response = HttpResponseRedirect(there)
        response["Cache-Control"] = "no-store"
        return response


class Objects(GateView):
    """Asked of the cluster now, by way of the gate."""

    template_name = "gate/objects.html"
    tab = "objects"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:  # noqa: ARG002
        row = self.row()
        mine = is_owner(self.principal, row)
        cluster = where.cluster_of(row)
        if cluster is None:
            return self.shown(row, "objects")
        found = where.objects_of(row, cluster)
        seen = rpc.ask_objects(row.cluster_key, found, with_env=mine)
        events = [{**event, "at": _moment(event), "said_at": event["at"]} for event in seen.events]
        context: dict[str, Any] = {"seen": seen, "events": events, "objects": found}
        if not kubectl_reaches(cluster):
            context["no_kubectl"] = no_address(cluster.label)
        return self.shown(row, "objects", context)


def _moment(event: Mapping[str, Any]) -> datetime | None:
    """Return when it was; None where the cluster's words for it are no time."""
    try:
        return parse_datetime(str(event["at"]))
    except ValueError:
        return None
