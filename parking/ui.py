# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Pages: who holds GPUs and does not use them, and putting one off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from clusters.models import Flavor
from common.errors import NotFound
from common.ids import is_uid
from common.ui.responses import go
from parking import selectors, services, ui_policies, words
from parking.choices import MAX_MINUTES
from parking.mail_link import Keep
from parking.patrol import LEAST_HOURS, MOST_HOURS, Filter, Patrol, patrol
from parking.ui_policies import kind_choices
from projects.access import Permission, permissions_of
from projects.models import Project
from projects.ui.base import BulkPage, Chosen, Deed, PlatformView, ProjectView
from work import kinds
from work.models import Workload
from work.selectors import may_end, visible_to

# --- patrol ---------------------------------------------------------------------------------------


class FilterForm(forms.Form):
    """What counts as not used; lives in the address."""

    below = forms.FloatField(
        label=_("GPU below (%)"), min_value=0.1, max_value=100, required=False, initial=10
    )
    hours = forms.FloatField(
        label=_("For so many hours"),
        min_value=LEAST_HOURS,
        max_value=MOST_HOURS,
        required=False,
        initial=2,
    )
    kind = forms.ChoiceField(label=_("Kind of work"), required=False)
    flavor = forms.ChoiceField(label=_("Kind of GPU"), required=False)
    q = forms.CharField(label=_("Name, person or project"), max_length=80, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        fields: Any = self.fields
        fields["kind"].choices = [("", _t("Any")), *kind_choices()]
        flavors = Flavor.objects.order_by("position", "name").values_list("name", "label")
        fields["flavor"].choices = [("", _t("Any")), *flavors]

    def wanted(self) -> Filter:
        """Return the filter; what makes no sense is as if it were not said."""
        said = self.cleaned_data if self.is_bound and self.is_valid() else {}
        given = {name: said[name] for name in said if said[name] not in (None, "")}
        return Filter(**given)


PER_PAGE = 25


class PatrolView(PlatformView):
    """Everybody's; of a project: its own."""

    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "parking/patrol.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        said = patrol_page(request, None)
        may = self.principal.is_operator
        query = _policy_query(said["patrol"].filter)
        return self.render(
            {
                **said,
                "may_act": may,
                "act_url": reverse("parking:act"),
                "policy_url": reverse("parking:policy-new", query=query) if may else "",
            }
        )


class ProjectPatrol(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.PATROL_READ}
    template_name = "parking/patrol.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        said = patrol_page(request, self.project)
        act_url = reverse("parking:project-act", args=[project])
        may = Permission.WORKSPACE_MANAGE in permissions_of(self.principal, self.project)
        return self.render({**said, "may_act": may, "act_url": act_url, "policy_url": ""})


def patrol_page(request: HttpRequest, project: Project | None) -> dict[str, Any]:
    form = FilterForm(request.GET or None)
    found: Patrol = patrol(form.wanted(), project)
    page = Paginator(found.holders, PER_PAGE).get_page(request.GET.get("page"))
    said = {"form": form, "patrol": found, "page": page, "project_of_page": project}
    return {**said, "deeds": DEEDS}


def _policy_query(wanted: Filter) -> dict[str, Any]:
    minutes = min(MAX_MINUTES, round(wanted.hours * 60))
    return {"gpu_below": f"{wanted.below:g}", "minutes": minutes, "kind": wanted.kind}


DEEDS = (
    Deed(
        name="message",
        icon="message",
        on_chosen=_("Write to the owners"),
        title=lambda n: ngettext("Write to %(n)d owner?", "Write to %(n)d owners?", n) % {"n": n},
        done=lambda n: ngettext("%(n)d owner was told.", "%(n)d owners were told.", n) % {"n": n},
        act=services.owner_message,
        fits=may_end,
        lost=_("Each is told by the bell, and by mail where they want it. Nothing else happens."),
    ),
    Deed(
        name="extend",
        icon="clock-plus",
        on_chosen=_("Leave the chosen alone for a while"),
        title=lambda n: ngettext("Put off %(n)d?", "Put off %(n)d?", n) % {"n": n},
        done=lambda n: ngettext("%(n)d is put off.", "%(n)d are put off.", n) % {"n": n},
        act=lambda principal, row, said: services.idle_extend(
            principal=principal, row=row, reason=said
        ),
        fits=lambda who, row: may_end(who, row) and getattr(row, "idle", None) is not None,
        lost=_("By one extension of its policy. What no policy is about to end can't be put off."),
    ),
    Deed(
        name="park",
        icon="parking",
        on_chosen=_("Park the chosen"),
        title=lambda n: ngettext("Park %(n)d?", "Park %(n)d?", n) % {"n": n},
        done=lambda n: ngettext("%(n)d is being parked.", "%(n)d are being parked.", n) % {"n": n},
        act=services.work_park,
        fits=lambda who, row: may_end(who, row) and not kinds.kind_of(row.kind).once,
        lost=_(
            "They are stopped and their GPUs go back. Files, addresses, packages and settings are "
            "kept, and each can be resumed. What only lies in memory is lost."
        ),
    ),
)


def work_rows() -> Any:
    """Return the rows that may be chosen."""
    return Workload.objects.filter(
        deleted_at__isnull=True, kind__in=[kind.word for kind in kinds.kinds()]
    ).select_related("project", "owner", "idle")


class ActPage(BulkPage):
    """Asks, and does it to each; owners are told by whom and why."""

    deeds: ClassVar[Sequence[Deed]] = DEEDS

    def among(self) -> Any:
        return work_rows()

    def chosen(self, keys: Sequence[str]) -> Sequence[Any]:
        return list(self.among().filter(uid__in=[key for key in keys if is_uid(key)]))

    def described(self, row: Any) -> Chosen:
        who = "" if row.owner_id == self.principal.user.pk else row.owner.label
        return Chosen(str(row.uid), row.name, who, selectors.address_of(row))


class AllActs(ActPage, PlatformView):
    required_platform: ClassVar[Any] = {"GET": "operator", "POST": "operator"}

    def back(self) -> str:
        return reverse("parking:patrol")


class ProjectActs(ActPage, ProjectView):
    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_MANAGE,
        "POST": Permission.WORKSPACE_MANAGE,
    }

    def among(self) -> Any:
        return work_rows().filter(project=self.project)

    def back(self) -> str:
        return reverse("parking:project-patrol", args=[self.project.slug])


# --- putting off ----------------------------------------------------------------------------------


def work_of(view: ProjectView | Any, uid: UUID) -> Any:
    """Return work of the view's project that its principal may see, of whatever kind."""
    row = Workload.objects.filter(uid=uid, project=view.project).first()
    known = {kind.word: kind for kind in kinds.kinds()}
    if row is None or row.kind not in known:
        raise NotFound(_t("There is no such thing, or you may not see it."))
    found = visible_to(view.principal, known[row.kind], view.project).filter(pk=row.pk).first()
    if found is None:
        raise NotFound(_t("There is no such thing, or you may not see it."))
    return found


class Extend(ProjectView):
    """One press: it is kept for one extension of its policy."""

    required_permissions: ClassVar = {"POST": Permission.PROJECT_READ}

    def post(self, request: HttpRequest, project: str, workload: UUID) -> HttpResponse:
        row = work_of(self, workload)
        stretch = services.idle_extend(
            principal=self.principal, row=row, reason=request.POST.get("reason", "")
        )
        left = 0 if stretch.due_at is None else words.minutes_left(stretch.due_at)
        text = ngettext(
            "“%(name)s” is kept for %(n)d more minute.",
            "“%(name)s” is kept for %(n)d more minutes.",
            left,
        )
        messages.success(request, text % {"name": row.name, "n": left})
        return go(request, row.get_absolute_url())


app_name = "parking"
_HERE = "console/idle-policies"
urlpatterns = [
    path("idle/keep/<str:token>", Keep.as_view(), name="keep"),
    path("console/patrol/", PatrolView.as_view(), name="patrol"),
    path("console/patrol/act", AllActs.as_view(), name="act"),
    path("projects/<slug:project>/patrol", ProjectPatrol.as_view(), name="project-patrol"),
    path("projects/<slug:project>/patrol/act", ProjectActs.as_view(), name="project-act"),
    path("projects/<slug:project>/idle/<uuid:workload>/extend", Extend.as_view(), name="extend"),
    path(f"{_HERE}/", ui_policies.PolicyList.as_view(), name="policies"),
    path(f"{_HERE}/new", ui_policies.PolicyEdit.as_view(), name="policy-new"),
    path(f"{_HERE}/<uuid:policy>/", ui_policies.PolicyEdit.as_view(), name="policy"),
    path(f"{_HERE}/<uuid:policy>/delete", ui_policies.PolicyDelete.as_view(), name="policy-delete"),
]
