"""All workspaces of all projects, never what is inside; presets, what people start with."""

from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from common.errors import Conflict, Invalid, NotFound
from common.ui.responses import show_error
from console import forms, selectors, tables
from console.views.base import ConsoleView, ListView
from notebooks.models import Preset, Workspace
from notebooks.services import lifecycle
from notebooks.services import presets as services
from notebooks.ui import texts


class PresetList(ListView):
    table_class = tables.PresetTable
    filter_class = forms.PresetFilter

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Preset]:
        return selectors.presets(chosen)

    def extra(self) -> dict[str, Any]:
        return {
            "heading": _("Presets"),
            "action_url": reverse("console:preset-create"),
            "action_label": _("New preset"),
        }


def preset_of(uid: Any) -> Preset:
    row = Preset.objects.filter(uid=uid).first()
    if row is None:
        raise NotFound(_("There is no such preset."))
    return row


class PresetCreate(ConsoleView):
    required_platform: ClassVar[Any] = "operator"
    template_name = "console/form.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self._page(forms.PresetForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        form = forms.PresetForm(request.POST)
        if not form.is_valid():
            return self._page(form, 400)
        fields = services.PresetFields(form.values(), list(form.cleaned_data["projects"]))
        try:
            preset = services.preset_create(principal=self.principal, fields=fields)
        except (Invalid, Conflict) as error:
            show_error(form, error)
            return self._page(form, error.status)
        messages.success(request, _("“%(name)s” is offered now.") % {"name": preset.name})
        return HttpResponseRedirect(reverse("console:presets"))

    def _page(self, form: forms.PresetForm, status: int = 200) -> HttpResponse:
        context = {
            "form": form,
            "heading": _("New preset"),
            "submit": _("Make the preset"),
            "back_url": reverse("console:presets"),
            "back_label": _("Presets"),
        }
        return self.render(context, status=status)


class PresetEdit(ConsoleView):
    template_name = "console/preset.html"

    def get(self, request: HttpRequest, preset: Any) -> HttpResponse:  # noqa: ARG002
        row = preset_of(preset)
        form = forms.PresetForm(initial=_initial(row))
        return self._page(row, form)

    def post(self, request: HttpRequest, preset: Any) -> HttpResponse:
        row = preset_of(preset)
        form = forms.PresetForm(request.POST)
        if not form.is_valid():
            return self._page(row, form, 400)
        fields = services.PresetFields(form.values(), list(form.cleaned_data["projects"]))
        try:
            services.preset_update(principal=self.principal, preset=row, fields=fields)
        except (Invalid, Conflict) as error:
            show_error(form, error)
            return self._page(row, form, error.status)
        messages.success(request, _("Saved. Workspaces made before keep what they have."))
        return HttpResponseRedirect(reverse("console:presets"))

    def _page(self, row: Preset, form: forms.PresetForm, status: int = 200) -> HttpResponse:
        if not self.principal.is_operator:
            for field in form.fields.values():
                field.disabled = True
        return self.render({"form": form, "preset": row}, status=status)


class PresetDelete(ConsoleView):
    stands_on = PresetEdit
    required_platform: ClassVar[Any] = {"POST": "operator"}

    def post(self, request: HttpRequest, preset: Any) -> HttpResponse:
        row = preset_of(preset)
        if request.POST.get("confirm", "").strip() != row.name:
            raise Invalid(_("The typed name is not the preset's. Nothing was changed."))
        services.preset_delete(principal=self.principal, preset=row)
        messages.success(request, _("“%(name)s” is deleted.") % {"name": row.name})
        return HttpResponseRedirect(reverse("console:presets"))


def _initial(row: Preset) -> dict[str, Any]:
    names = (
        "name",
        "description",
        "icon",
        "environment",
        "gpus",
        "gpu_flavor",
        "kind",
        "cluster_key",
        "image",
        "pool",
        "network",
        "time_limit_minutes",
        "max_time_limit_minutes",
        "idle_stop_minutes",
        "position",
        "is_active",
    )
    return {
        **{name: getattr(row, name) for name in names},
        "cpus": row.cpu_milli / 1000,
        "memory_gib": round(row.memory_mib / 1024, 2),
        "command": texts.line(row.command),
        "args": texts.line(row.args),
        "ports": texts.port_lines(row.ports),
        "shm_gib": round(row.shm_mib / 1024, 2) or None,
        "projects": list(row.projects.all()),
    }


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
        lifecycle.workspace_stop(principal=self.principal, workspace=row, said=said)
        messages.success(request, _("“%(name)s” is being stopped.") % {"name": row.name})
        return HttpResponseRedirect(reverse("console:workspaces"))
