"""Projects with what they hold, and the editor of limits."""

from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.models import User
from clusters.models import Flavor
from common.errors import Invalid, NotFound
from common.ui.responses import show_error
from console import forms, selectors, tables
from console.views.base import ConsoleView, ListView
from projects.models import Project
from quotas import services as quotas
from quotas.models import Limit


class ProjectList(ListView):
    table_class = tables.ProjectTable
    filter_class = forms.ProjectFilter

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Project]:
        return selectors.projects(chosen)

    def extra(self) -> dict[str, Any]:
        return {"heading": _("Projects")}


def project_of(uid: Any) -> Project:
    row = Project.objects.filter(uid=uid, deleted_at__isnull=True).first()
    if row is None:
        raise NotFound(_("There is no such project."))
    return row


def limits_page(
    view: ConsoleView,
    form: forms.LimitsForm | None,
    *,
    project: Project | None = None,
    user: User | None = None,
    effects: list[quotas.Effect] | None = None,
    status: int = 200,
) -> HttpResponse:
    """Draw the editor; ``effects`` is the panel computed before (or after) saving."""
    rows = Limit.objects.filter(project=project, user=user)
    initial = forms.LimitsForm.initial_of({row.resource: row.amount for row in rows})
    back = "console:projects" if project else "console:users"
    context = {
        "form": form or forms.LimitsForm(initial=initial, flavors=_flavors()),
        "effects": effects,
        "subject": project.name if project else user.label if user else "",
        "back_url": reverse(back),
        "back_label": _("Projects") if project else _("People"),
    }
    return view.render(context, status=status)


def limits_post(
    view: ConsoleView,
    request: HttpRequest,
    *,
    project: Project | None = None,
    user: User | None = None,
) -> HttpResponse:
    """``preview`` only computes what would follow; otherwise save and say what follows."""
    form = forms.LimitsForm(request.POST, flavors=_flavors())
    if not form.is_valid():
        return limits_page(view, form, project=project, user=user, status=400)
    preview = "preview" in request.POST
    try:
        if preview:
            effects = quotas.limits_effect(limits=form.limits(), project=project, user=user)
        else:
            effects = quotas.limits_set(
                principal=view.principal, limits=form.limits(), project=project, user=user
            )
    except Invalid as error:
        show_error(form, error)
        return limits_page(view, form, project=project, user=user, status=400)
    if preview:
        return limits_page(view, form, project=project, user=user, effects=effects)
    messages.success(request, _("The limits are saved."))
    for effect in effects:
        if effect.is_over:
            messages.warning(request, effect.sentence)
    return HttpResponseRedirect(request.path)


def _flavors() -> list[tuple[str, str]]:
    return list(Flavor.objects.order_by("position", "name").values_list("name", "label"))


class Limits(ConsoleView):
    """Ceilings of a project: everything its members may take together."""

    template_name = "console/limits.html"

    def get(self, request: HttpRequest, uid: Any) -> HttpResponse:  # noqa: ARG002
        return limits_page(self, None, project=project_of(uid))

    def post(self, request: HttpRequest, uid: Any) -> HttpResponse:
        return limits_post(self, request, project=project_of(uid))
