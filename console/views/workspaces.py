"""All workspaces of all projects, never what is inside; presets, what people start with."""

from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from common.errors import NotFound
from console import forms, selectors, tables
from console.views.base import ConsoleView, DeletePage, FormPage, ListView
from notebooks.models import Preset, Workspace
from notebooks.services import presets as services
from work.services import workload_stop


class PresetList(ListView):
    table_class = tables.PresetTable
    filter_class = forms.PresetFilter
    heading = _lazy("Presets")
    new = "console:preset-create", _lazy("New preset")

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Preset]:
        return selectors.presets(chosen)


class PresetCreate(FormPage):
    required_platform: ClassVar[Any] = "operator"
    form_class = forms.PresetForm
    heading, submit = _lazy("New preset"), _lazy("Make the preset")
    back = "console:presets", _lazy("Presets")

    def save(self, row: Preset | None, form: Any) -> str:  # noqa: ARG002
        fields = services.PresetFields(form.values(), list(form.cleaned_data["projects"]))
        preset = services.preset_create(principal=self.principal, fields=fields)
        messages.success(self.request, _("“%(name)s” is offered now.") % {"name": preset.name})
        return reverse("console:presets")


class PresetEdit(FormPage):
    template_name = "console/preset.html"
    back = PresetCreate.back

    def row(self) -> Preset:
        row = Preset.objects.filter(uid=self.kwargs["preset"]).first()
        if row is None:
            raise NotFound(_("There is no such preset."))
        return row

    def form(self, row: Preset, data: Any = None) -> forms.PresetForm:
        return forms.PresetForm(data, initial=forms.PresetForm.told(row))

    def save(self, row: Preset, form: Any) -> str:
        fields = services.PresetFields(form.values(), list(form.cleaned_data["projects"]))
        services.preset_update(principal=self.principal, preset=row, fields=fields)
        said = _("Saved. Workspaces made before keep what they have.")
        messages.success(self.request, said)
        return reverse("console:presets")

    def page(self, row: Preset, form: Any) -> dict[str, Any]:  # noqa: ARG002
        return {"preset": row}


class PresetDelete(DeletePage):
    stands_on = PresetEdit
    refusal = _lazy("The typed name is not the preset's. Nothing was changed.")

    def remove(self, row: Preset) -> None:
        services.preset_delete(principal=self.principal, preset=row)


class WorkspaceList(ListView):
    table_class = tables.WorkspaceTable
    heading = _lazy("All workspaces")
    filter_class = forms.WorkspaceFilter

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Workspace]:
        return selectors.workspaces(chosen)

    def extra(self) -> dict[str, Any]:
        return {"live": "operators"}


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
