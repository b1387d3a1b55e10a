"""All workspaces of all projects: names and states, never what is inside."""

from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from common.errors import NotFound
from console import forms, selectors, tables
from console.views.base import ConsoleView, ListView
from notebooks.models import Workspace
from work.services import workload_stop


class WorkspaceList(ListView):
    table_class = tables.WorkspaceTable
    filter_class = forms.WorkspaceFilter

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Workspace]:
        return selectors.workspaces(chosen)

    def extra(self) -> dict[str, Any]:
        return {"heading": _("All workspaces"), "live": "operators"}


class Stop(ConsoleView):
    stands_on = WorkspaceList
    required_platform: ClassVar[Any] = {"POST": "operator"}

    def post(self, request: HttpRequest, workspace: Any) -> HttpResponse:
        row = Workspace.objects.filter(uid=workspace, deleted_at__isnull=True).first()
        if row is None:
            raise NotFound(_("There is no such workspace."))
        said = request.POST.get("reason", "")
        workload_stop(principal=self.principal, row=row, said=said)
        messages.success(request, _("“%(name)s” is being stopped.") % {"name": row.name})
        return HttpResponseRedirect(reverse("console:workspaces"))
