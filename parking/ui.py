# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Pages: who holds GPUs and does not use them, the policies for that, and putting one off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from clusters.models import Flavor
from common.errors import BerthError, Invalid, NotFound
from common.ids import is_uid
from common.paging import paginate
from common.ui.responses import go, refuse
from parking import dry_run, selectors, services, words
from parking.choices import MAX_MINUTES
from parking.models import IdlePolicy
from parking.patrol import MOST_HOURS, Filter, Patrol, patrol
from projects.access import Permission
from projects.models import Project
from projects.ui.base import BulkPage, Chosen, Deed, PlatformView, ProjectView
from queues.models import Queue
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
        label=_("For so many hours"), min_value=0.5, max_value=MOST_HOURS, required=False, initial=2
    )
    kind = forms.ChoiceField(label=_("Kind of work"), required=False)
    flavor = forms.ChoiceField(label=_("Kind of GPU"), required=False)
    q = forms.CharField(label=_("Name, person or project"), max_length=80, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        fields: Any = self.fields
        fields["kind"].choices = [("", _t("Any")), *_kind_choices()]
        flavors = Flavor.objects.order_by("position", "name").values_list("name", "label")
        fields["flavor"].choices = [("", _t("Any")), *flavors]

    def wanted(self) -> Filter:
        """Return the filter; what makes no sense is as if it were not said."""
        said = self.cleaned_data if self.is_bound and self.is_valid() else {}
        given = {name: said[name] for name in said if said[name] not in (None, "")}
        return Filter(**given)


def _kind_choices() -> list[tuple[str, str]]:
    return [(kind.word, str(kind.many)) for kind in kinds.kinds() if "gpus" in kind.table]


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
    required_permissions: ClassVar = {"GET": Permission.WORKSPACE_MANAGE}
    template_name = "parking/patrol.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        said = patrol_page(request, self.project)
        act_url = reverse("parking:project-act", args=[project])
        return self.render({**said, "may_act": True, "act_url": act_url, "policy_url": ""})


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


# --- policies -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Listed:
    """A policy as the list shows it."""

    policy: IdlePolicy
    scope: str
    rule: str
    kind: str


class PolicyList(PlatformView):
    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "parking/policies.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        page = paginate(request, selectors.policies())
        named = dict(_kind_choices())
        rows = [
            Listed(
                one,
                words.scope_words(one),
                words.rule_words(one),
                named.get(one.kind, _t("Any that does not end by itself")),
            )
            for one in page.object_list
        ]
        return self.render({"page": page, "rows": rows, "may_change": self.principal.is_operator})


class PolicyForm(forms.ModelForm):
    """A policy; whose it is can be said of a new one only."""

    whose = forms.ChoiceField(label=_("For"), required=False)
    kind = forms.ChoiceField(label=_("Kind of work"), required=False)
    weekdays = forms.MultipleChoiceField(
        label=_("Idle time counts on"),
        choices=list(words.DAYS.items()),
        widget=forms.CheckboxSelectMultiple,
    )

    class Meta:
        model = IdlePolicy
        fields = (
            *("kind", "minutes", "gpu_below", "cpu_below", "memory_below", "network_below"),
            *("grace", "act", "extension", "extensions"),
            *("weekdays", "from_hour", "until_hour", "zone", "state"),
        )
        help_texts: ClassVar = {
            "minutes": _("Minutes in which all of the following is quiet."),
            "gpu_below": _("Percent, of the busiest GPU."),
            "cpu_below": _(
                "Thousandths of a CPU. A server that only waits takes less than 50; loading data "
                "or a terminal that computes takes more."
            ),
            "memory_below": _("MiB of the GPUs; empty: not asked."),
            "network_below": _("KiB a second, where it is measured; empty: not asked."),
            "grace": _("Minutes between the warning and what follows."),
            "act": _("Files, address, packages and settings are kept in each case."),
            "extension": _("Minutes that one press on “keep it” gives; 0: it can't be put off."),
            "extensions": _("So many presses need no reason; each after them does."),
            "from_hour": _("An hour of the day, in the zone below."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        fields: Any = self.fields
        fields["kind"].choices = [("", _t("Any that does not end by itself")), *_kind_choices()]
        self.initial["weekdays"] = list(self.instance.weekdays)
        if self.instance.pk:
            del fields["whose"]
            return
        projects = Project.objects.filter(deleted_at__isnull=True).order_by("name")
        above = Queue.objects.filter(project__isnull=True).order_by("name")
        fields["whose"].choices = [
            ("", _t("The whole platform")),
            (_t("Projects"), [(f"project:{p.uid}", f"{p.name} ({p.slug})") for p in projects]),
            (_t("Organisations"), [(f"organisation:{q.uid}", q.name) for q in above]),
        ]
        self.order_fields(["whose"])

    def clean_weekdays(self) -> str:
        return "".join(self.cleaned_data["weekdays"])

    def validate_unique(self) -> None:
        """The service says it in words."""

    def values(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in services.policies.FIELDS}

    def owner(self) -> dict[str, Any]:
        """Return whose it is, as the service takes it."""
        word, _colon, uid = self.cleaned_data.get("whose", "").partition(":")
        if not word:
            return {}
        rows: Any = Project if word == "project" else Queue
        return {word: rows.objects.get(uid=uid)}


class PolicyEdit(PlatformView):
    """One policy, or a new one; ``look``: what it would have given back, before it is saved."""

    required_platform: ClassVar[Any] = {"GET": "auditor", "POST": "operator"}
    template_name = "parking/policy.html"

    def get(self, request: HttpRequest, policy: Any = None) -> HttpResponse:
        row = selectors.policy_get(policy) if policy else None
        said = {k: request.GET[k] for k in ("gpu_below", "minutes", "kind") if k in request.GET}
        form = PolicyForm(instance=row, initial=said)
        found = dry_run.look_back(row, days=7) if row else None
        return self._page(row, form, found=found)

    def post(self, request: HttpRequest, policy: Any = None) -> HttpResponse:
        row = selectors.policy_get(policy) if policy else None
        form = PolicyForm(request.POST, instance=selectors.policy_get(policy) if policy else None)
        if not form.is_valid():
            return self._page(row, form, 422)
        who = self.principal
        try:
            if days := request.POST.get("look", ""):
                return self._page(row, form, found=self._look(form, days))
            if row is None:
                made = services.policy_make(principal=who, values=form.values(), **form.owner())
            else:
                made = services.policy_change(principal=who, policy=row, values=form.values())
        except BerthError as error:
            return self._page(row, form, refuse(request, form, error))
        name = words.scope_words(made)
        messages.success(request, _t("The policy of “%(name)s” is saved.") % {"name": name})
        return HttpResponseRedirect(reverse("parking:policies"))

    def _look(self, form: PolicyForm, days: str) -> dry_run.Found:
        asked = int(days) if days.isascii() and days.isdecimal() else 0
        if asked not in dry_run.DAYS:
            raise Invalid(_t("2, 7 or 30 days, please."))
        draft = IdlePolicy(**form.values())
        if form.instance.pk:
            draft.project, draft.organisation = form.instance.project, form.instance.organisation
        for name, owner in form.owner().items():
            setattr(draft, name, owner)
        return dry_run.look_back(services.policies.checked(draft), days=asked)

    def _page(
        self,
        row: IdlePolicy | None,
        form: PolicyForm,
        status: int = 200,
        found: dry_run.Found | None = None,
    ) -> HttpResponse:
        return self.render(
            {
                "policy": row,
                "scope": words.scope_words(row) if row else "",
                "form": form,
                "found": found,
                "days": dry_run.DAYS,
                "may_change": self.principal.is_operator,
            },
            status=status,
        )


class PolicyDelete(PlatformView):
    """A policy goes behind the typed name of what it is for."""

    required_platform: ClassVar[Any] = {"POST": "operator"}
    stands_on = PolicyEdit

    def post(self, request: HttpRequest, policy: Any) -> HttpResponse:
        row = selectors.policy_get(policy)
        name = words.scope_words(row)
        if request.POST.get("confirm", "").strip() != name:
            raise Invalid(_t("The typed name is not right. Nothing was changed."))
        services.policy_delete(principal=self.principal, policy=row)
        messages.success(request, _t("The policy of “%(name)s” is deleted.") % {"name": name})
        return HttpResponseRedirect(reverse("parking:policies"))


app_name = "parking"
_HERE = "console/idle-policies"
urlpatterns = [
    path("console/patrol/", PatrolView.as_view(), name="patrol"),
    path("console/patrol/act", AllActs.as_view(), name="act"),
    path("projects/<slug:project>/patrol", ProjectPatrol.as_view(), name="project-patrol"),
    path("projects/<slug:project>/patrol/act", ProjectActs.as_view(), name="project-act"),
    path("projects/<slug:project>/idle/<uuid:workload>/extend", Extend.as_view(), name="extend"),
    path(f"{_HERE}/", PolicyList.as_view(), name="policies"),
    path(f"{_HERE}/new", PolicyEdit.as_view(), name="policy-new"),
    path(f"{_HERE}/<uuid:policy>/", PolicyEdit.as_view(), name="policy"),
    path(f"{_HERE}/<uuid:policy>/delete", PolicyDelete.as_view(), name="policy-delete"),
]
