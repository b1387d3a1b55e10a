# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""What a load's runs wrote, as pages: live while one runs, and of each run that is kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from clusters.streams import MAX_DOWNLOAD, log_tail
from common.errors import BerthError, NotFound
from common.ui.responses import as_file
from loaders import logs, selectors
from loaders.models import Load, LoadRun
from loaders.ui.views import READ, LoadView
from projects.access import Permission

_DIGITS = 9


class _LogView(LoadView):
    required_permissions: ClassVar[Mapping[str, Permission]] = READ

    def run(self, row: Load) -> LoadRun | None:
        """Return the run that is asked for; Forbidden where names of files are not shown."""
        selectors.require_inside(self.principal, row)
        text = self.request.GET.get("run", "")
        if text and not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
            raise NotFound(_("There is no such run of this load, or it is not kept any more."))
        return logs.run_of(row, int(text) if text else None)


class Logs(_LogView):
    """The end of what one run wrote, followed live when there is a script."""

    template_name = "loaders/logs.html"
    partial_name = "loaders/_newer.html"  # whether another run began since
    tab = "logs"

    def get(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        row = self.row()
        run = self.run(row)
        context: dict[str, Any] = {"run": run, "log": None, "problem": ""}
        if run is not None:
            context["newer"] = row.runs.filter(launch__gt=run.launch).exists()
        if run is not None and not getattr(request, "htmx", False):
            context |= self._of(row, run)
        return self.render(self.page(row, context))

    def _of(self, row: Load, run: LoadRun) -> dict[str, Any]:
        keys = {"project": self.project.slug, "load": row.uid}
        query = f"?run={run.launch}"
        found: dict[str, Any] = {
            "runs": selectors.runs_of(row, 100),
            "stream_url": reverse("api-load-logs", kwargs=keys) + query,
            "download_url": reverse("loaders:log-download", kwargs=keys) + query,
        }
        try:
            found["log"] = log_tail(partial(logs.run_read, run.pk))
        except BerthError as error:
            found["problem"] = error.message
        if run.result:
            found["log_empty"] = _("It wrote nothing, or what it wrote is not kept any more.")
        return found


class LogDownload(_LogView):
    """All that is kept of what one run wrote, as a file."""

    def get(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        row = self.row()
        run = self.run(row)
        name = f"load-{str(row.uid)[:8]}"
        if run is None:
            return as_file(b"", f"{name}.log")
        text = log_tail(partial(logs.run_read, run.pk), limit=MAX_DOWNLOAD).data
        return as_file(text, f"{name}-{run.launch}.log")
