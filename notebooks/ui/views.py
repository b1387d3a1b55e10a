"""The pages of one workspace."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from clusters.streams import MAX_DOWNLOAD, TAIL, LogPart, log_read, log_tail
from common.errors import BerthError, Conflict, Forbidden, Invalid
from common.ui.responses import as_file
from events import selectors as events
from notebooks import selectors
from notebooks.kind import WORKSPACE
from notebooks.models import Workspace
from notebooks.ui.connection_info import seen_at
from notebooks.ui.forms import SizeForm, edit_form
from notebooks.ui.present import shown
from notebooks.ui.shared import go, refuse, to_yaml
from notebooks.ui.tabs import Tab, more_of
from notebooks.where import cluster_of
from projects.access import Permission
from projects.ui.base import ProjectView
from runtime.protocol import Phase
from work.selectors import (
    is_owner,
    require_owner,
    share_candidates,
    shares_of,
    workload_get,
)
from work.services import manifest_of, workload_edit

READ: Mapping[str, Permission] = {"GET": Permission.WORKSPACE_READ}


class WorkspaceView(ProjectView):
    """A page of one workspace."""

    tab: ClassVar[str] = "overview"

    def workspace(self) -> Workspace:
        return workload_get(self.principal, WORKSPACE, self.kwargs["workspace"], self.project)

    def owned(self) -> Workspace:
        row = self.workspace()
        require_owner(self.principal, row)
        return row

    def page(self, row: Workspace, context: dict[str, Any] | None = None) -> dict[str, Any]:
        state = shown(self.principal, row)
        return {
            "row": row,
            "state": state,
            "tabs": self._tabs(row, is_owner=state.is_owner),
            **(context or {}),
        }

    def _tabs(self, row: Workspace, *, is_owner: bool) -> list[dict[str, Any]]:
        keys = {"project": self.project.slug, "workspace": row.short_id}
        tabs = [Tab("overview", "notebooks:detail", _("Overview"))]
        if is_owner:
            tabs.append(Tab("logs", "notebooks:logs", _("Logs")))
        tabs.append(Tab("events", "notebooks:events", _("Events")))
        tabs += more_of(self.principal, row)
        tabs.append(Tab("usage", "notebooks:usage", _("Usage")))
        tabs.append(Tab("yaml", "notebooks:yaml", "YAML"))
        if is_owner:
            tabs.append(Tab("settings", "notebooks:settings", _("Settings")))
        return [
            {
                "label": tab.label,
                "url": reverse(tab.route, kwargs=keys),
                "current": tab.key == self.tab,
            }
            for tab in tabs
        ]


class Detail(WorkspaceView):
    """What is happening now: the timeline while it starts, Open when it runs."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "notebooks/detail.html"

    def get(self, request: HttpRequest, project: str, workspace: str) -> HttpResponse:  # noqa: ARG002
        row = self.workspace()
        return self.render(self.page(row, {**people(row), "volumes": seen_at(row)}))


class State(WorkspaceView):
    """The parts of the page that change by themselves: its head, or the one that is named."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "notebooks/_state.html"
    PARTS: ClassVar[Mapping[str, str]] = {
        "head": "notebooks/_head.html",
        "reach": "notebooks/_reach.html",
        "facts": "notebooks/_facts.html",
    }

    def get(self, request: HttpRequest, project: str, workspace: str) -> HttpResponse:  # noqa: ARG002
        row = self.workspace()
        part = self.PARTS.get(request.GET.get("part", ""), "")
        context = self.page(row)
        if part and part != self.PARTS["head"]:
            context |= {"place": context["state"].place, "volumes": seen_at(row)}
        return self.render(context, template=part)


class Logs(WorkspaceView):
    """The end of the log, followed live when there is a script. Private to the owner."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "notebooks/logs.html"
    tab = "logs"

    def get(self, request: HttpRequest, project: str, workspace: str) -> HttpResponse:  # noqa: ARG002
        row = self.owned()
        context: dict[str, Any] = {"log": None, "problem": ""}
        try:
            context["log"] = log_of(row)
        except BerthError as error:
            context["problem"] = error.message
        keys = {"project": self.project.slug, "workspace": row.short_id}
        context["stream_url"] = self._stream(row) or reverse("api-workspace-logs", kwargs=keys)
        context["download_url"] = reverse("notebooks:log-download", kwargs=keys)
        return self.render(self.page(row, context))

    def _stream(self, row: Workspace) -> str:
        """A pod's log is followed at its source: a ticket leads to the gate, at each connection.
        Other logs are asked for.
        """
        alive = row.shown_phase in {Phase.STARTING, Phase.RUNNING}
        if not alive or cluster_of(row) is None:
            return ""
        return f"/tickets/logs/{row.short_id}"


class LogDownload(WorkspaceView):
    """The whole log that is kept (its size is bounded by the driver), as a file."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ

    def get(self, request: HttpRequest, project: str, workspace: str) -> HttpResponse:  # noqa: ARG002
        row = self.owned()
        return as_file(log_of(row, MAX_DOWNLOAD).data, f"{row.short_id}.log")


class Events(WorkspaceView):
    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "notebooks/events.html"
    tab = "events"

    def get(self, request: HttpRequest, project: str, workspace: str) -> HttpResponse:  # noqa: ARG002
        row = self.workspace()
        steps, more_steps = events.newest(row.steps.order_by("-id"))
        told, more = events.newest(events.of_target(row.uid))
        said = {"events": told, "more_events": more, "steps": steps, "more_steps": more_steps}
        return self.render(self.page(row, said))


class Usage(WorkspaceView):
    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "notebooks/usage.html"
    tab = "usage"

    def get(self, request: HttpRequest, project: str, workspace: str) -> HttpResponse:  # noqa: ARG002
        row = self.workspace()
        keys = {"project": self.project.slug, "workspace": row.short_id}
        samples = selectors.usage_of(row)[:-21:-1]
        usage_url = reverse("api-workspace-usage", kwargs=keys)
        return self.render(self.page(row, {"usage_url": usage_url, "samples": samples}))


class Yaml(WorkspaceView):
    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "notebooks/yaml.html"
    tab = "yaml"

    def get(self, request: HttpRequest, project: str, workspace: str) -> HttpResponse:  # noqa: ARG002
        row = self.workspace()
        mine = is_owner(self.principal, row)
        text = to_yaml(manifest_of(row, private=mine))
        return self.render(self.page(row, {"manifest": text, "with_env": mine}))


class Settings(WorkspaceView):
    """Name, size, environment, limit; sharing; delete."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_READ,
        "POST": Permission.WORKSPACE_CREATE,
    }
    template_name = "notebooks/settings.html"
    tab = "settings"

    def get(self, request: HttpRequest, project: str, workspace: str) -> HttpResponse:  # noqa: ARG002
        row = self.owned()
        return self._page(row, edit_form(self.principal, row))

    def post(self, request: HttpRequest, project: str, workspace: str) -> HttpResponse:  # noqa: ARG002
        row = self.owned()
        form = edit_form(self.principal, row, request.POST)
        if not form.is_valid():
            return self._page(row, form, status=422)
        before, pinned = row.launch, row.image_digest
        try:
            said = form.said()
            newest = said.pop("newest_image", False)
            row = workload_edit(principal=self.principal, row=row, said=said, newest_image=newest)
        except (Invalid, Conflict, Forbidden) as error:
            status = refuse(request, form, error)
            return self._page(self.owned(), form, status)
        told = (
            _("Saved. It restarts with its new settings.") if row.launch > before else _("Saved.")
        )
        if newest and row.image_digest == pinned:
            told = _("%(saved)s The tag still means the image that is pinned.") % {"saved": told}
        messages.success(request, told)
        return go(request, row.get_absolute_url())

    def _page(self, row: Workspace, form: SizeForm, status: int = 200) -> HttpResponse:
        said = {"cluster": row.cluster_key}
        check = reverse("images:check", args=[self.project.slug], query=said)
        context = {"form": form, "image_check_url": check, **people(row)}
        return self.render(self.page(row, context), status=status)


def log_of(row: Workspace, limit: int = TAIL) -> LogPart:
    return log_tail(partial(log_read, row.cluster_key, str(row.uid)), limit=limit)


def people(row: Workspace) -> dict[str, Any]:
    """Return who may open it, and who could be let in."""
    return {
        "shares": list(shares_of(row)),
        "candidates": list(share_candidates(row)),
    }
