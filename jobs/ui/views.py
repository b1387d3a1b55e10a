"""Pages that only jobs have: the notebook that one ran, and the way here from a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from common.errors import NotFound
from jobs.models import NotebookResult
from jobs.origin import KIND as WORKSPACE
from jobs.ui.pages import PAGES
from projects.ui.base import PlatformView
from runtime.protocol import Desired
from work import kinds
from work.selectors import visible_to
from work.ui.base import OneView

_MAX_PATH = 500
# A person's notebook may hold anything: no scripts, no forms, no requests, an origin of its own.
_CLOSED = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


class Result(OneView):
    """The notebook that its latest launch ran, as it ended."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "read"}
    template_name = "jobs/result.html"
    tab = "result"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:  # noqa: ARG002
        row = self.inside()
        found = NotebookResult.objects.filter(job=row).defer("page").first()
        return self.render(self.page(row, {"result": found}))


class ResultPage(OneView):
    """The page of it, for the frame that shows it."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "read"}

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:  # noqa: ARG002
        row = self.inside()
        found = NotebookResult.objects.filter(job=row).first()
        if found is None:
            return HttpResponseRedirect(self.pages.address("result", row))
        response = HttpResponse(bytes(found.page), content_type="text/html; charset=utf-8")
        response["Content-Encoding"] = "gzip"
        response["Content-Security-Policy"] = _CLOSED
        response["X-Frame-Options"] = "SAMEORIGIN"
        response["Cache-Control"] = "private, no-store"
        return response


class FromLab(PlatformView):
    """From a file of JupyterLab to the form of a job that runs it; Lab knows no project."""

    required_platform: ClassVar[Any] = {"GET": "user"}

    def get(self, request: HttpRequest, workspace: str) -> HttpResponse:
        mine = visible_to(self.principal, kinds.kind_of(WORKSPACE))
        row = (
            mine.filter(owner=self.principal.user, short_id=workspace)
            .exclude(desired=Desired.ABSENT)
            .first()
        )
        if row is None:
            raise NotFound(_("There is no such workspace, or it is not yours."))
        folder, _slash, name = request.GET.get("path", "")[:_MAX_PATH].strip("/").rpartition("/")
        query = {"workspace": row.short_id, "script": name, "workdir": folder}
        said = {key: value for key, value in query.items() if value}
        return HttpResponseRedirect(PAGES.list_address("new", row.project.slug, query=said))
