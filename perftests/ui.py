# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The pages of performance tests: the results, a new test, one with its table and chart."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.errors import BerthError
from common.paging import paginate
from common.ui.responses import refuse
from jobs.fields import MAX_REPLICAS
from perftests import selectors, services
from perftests.api import MAX_GPUS, MAX_MIB
from perftests.choices import State, Test
from perftests.models import PerfTest, efficiency
from perftests.rules import spread_words
from placement.clusters import clusters_of
from placement.levels import LABELS
from projects.access import Permission
from projects.ui.base import ProjectView

LEFT = ("image", "environment", "cluster", "max_mib", "variables")  # folded away


class PerfTestForm(forms.Form):
    """Three fields; the rest is folded away and has good values."""

    test = forms.ChoiceField(label=_("Test"), choices=Test.choices)
    replicas = forms.IntegerField(
        label=_("Replicas"), min_value=1, max_value=MAX_REPLICAS, initial=2
    )
    gpus = forms.IntegerField(
        label=_("GPUs of each replica"),
        min_value=0,
        max_value=MAX_GPUS,
        initial=0,
        help_text=_("0: CPUs stand in, and the result says so."),
    )
    image = forms.CharField(
        label=_("Image"),
        required=False,
        max_length=512,
        help_text=_("On a cluster: one with Python, and for GPUs with PyTorch or nccl-tests."),
    )
    environment = forms.CharField(
        label=_("Environment"),
        required=False,
        max_length=255,
        help_text=_("On one machine. Empty: the usual one."),
    )
    cluster = forms.ChoiceField(label=_("Cluster"), required=False)
    max_mib = forms.IntegerField(
        label=_("Largest size in MiB"),
        required=False,
        min_value=1,
        max_value=MAX_MIB,
        help_text=_("Empty: 512 with GPUs, 16 without."),
    )
    variables = forms.CharField(
        label=_("NCCL variables"),
        required=False,
        max_length=5000,
        widget=forms.Textarea(attrs={"rows": 3, "class": "font-monospace", "spellcheck": "false"}),
        help_text=_("One NAME=value on each line, such as NCCL_ALGO=Ring."),
    )

    def __init__(self, *args: Any, clusters: Any = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", _("the likeliest")), *((one.key, one.name) for one in clusters)]
        self.fields["cluster"].choices = choices  # type: ignore[attr-defined]

    @property
    def first(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name not in LEFT]

    @property
    def left(self) -> list[forms.BoundField]:
        return [self[name] for name in LEFT]

    @property
    def is_open(self) -> bool:
        return any(field.errors or field.value() for field in self.left)

    def clean_variables(self) -> dict[str, str]:
        variables = {}
        for line in filter(None, map(str.strip, self.cleaned_data["variables"].splitlines())):
            name, sign, value = line.partition("=")
            if not sign:
                text = _t("Write NAME=value on each line; this is not: %(line)s")
                raise forms.ValidationError(text % {"line": line[:80]})
            variables[name.strip()] = value.strip()
        return variables


class PerfTestList(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.JOB_READ}
    template_name = "perftests/list.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        page = paginate(request, selectors.visible_to(self.principal, self.project))
        rows = list(page.object_list)
        beside = selectors.compared(rows)
        shown = [(row, beside.get(row.pk), spread_words(row.spread, LABELS)) for row in rows]
        return self.render({"page": page, "rows": shown})


class PerfTestNew(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.JOB_CREATE, "POST": Permission.JOB_CREATE}
    template_name = "perftests/new.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        """The last test of this person fills it."""
        rows = PerfTest.objects.filter(project=self.project, owner=self.principal.user)
        initial: dict[str, Any] = {}
        if (last := rows.order_by("-id").first()) is not None:
            initial = {**last.said, "test": last.test, "replicas": last.replicas}
            initial["gpus"] = last.gpus
        if (test := request.GET.get("test")) in Test.values:
            initial["test"] = test
        return self.render({"form": self._form(initial=initial)})

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = self._form(request.POST)
        if not form.is_valid():
            return self.render({"form": form}, status=422)
        try:
            row = services.perftest_create(
                principal=self.principal, project=self.project, said=form.cleaned_data
            )
        except BerthError as error:
            return self.render({"form": form}, status=refuse(request, form, error))
        return HttpResponseRedirect(row.get_absolute_url())

    def _form(self, *args: Any, **kwargs: Any) -> PerfTestForm:
        return PerfTestForm(*args, clusters=clusters_of(self.project), **kwargs)


class PerfTestDetail(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.JOB_READ}
    template_name = "perftests/detail.html"

    def get(self, request: HttpRequest, project: str, perftest: Any) -> HttpResponse:
        row = selectors.perftest_get(self.principal, self.project, perftest)
        beside = selectors.compared([row]).get(row.pk)
        mine = row.owner_id == self.principal.user.pk
        may = self.can(Permission.JOB_CREATE)
        said = {
            "row": row,
            "beside": beside,
            "lines": _lines(row, beside.baseline if beside else None),
            "spread": spread_words(row.spread, LABELS),
            "is_over": row.state != State.RUNNING,
            "may_measure": may,
            "may_choose": may and row.state == State.SUCCEEDED and not row.is_baseline,
            "may_delete": may
            and row.state != State.RUNNING
            and (mine or self.can(Permission.JOB_MANAGE)),
        }
        return self.render(said)


def _lines(row: PerfTest, baseline: PerfTest | None) -> list[dict[str, Any]]:
    """Return each line with the place on the chart, its figure, and that of the baseline."""
    at, figure = ("replicas", "efficiency") if row.is_scaling else ("size", "busbw")

    def told(of: PerfTest) -> dict[float, dict[str, Any]]:
        found = {}
        for line in of.lines:
            own = {"efficiency": efficiency(of.lines[0], line) * 100} if of.is_scaling else {}
            found[line[at]] = {**line, **own}
        return found

    before = told(baseline) if baseline else {}
    shown = []
    for place, line in told(row).items():
        other = before.get(place)
        shown.append(
            {**line, "at": place, "figure": line[figure], "before": other and other[figure]}
        )
    return shown


class _Act(ProjectView):
    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}
    stands_on = PerfTestDetail

    def row(self) -> PerfTest:
        return selectors.perftest_get(self.principal, self.project, self.kwargs["perftest"])


class PerfTestAgain(_Act):
    def post(self, request: HttpRequest, project: str, perftest: Any) -> HttpResponse:
        made = services.perftest_again(principal=self.principal, row=self.row())
        return HttpResponseRedirect(made.get_absolute_url())


class ChooseBaseline(_Act):
    def post(self, request: HttpRequest, project: str, perftest: Any) -> HttpResponse:
        row = services.baseline_choose(principal=self.principal, row=self.row())
        messages.success(request, _t("Tests of this shape are compared with this one now."))
        return HttpResponseRedirect(row.get_absolute_url())


class PerfTestDelete(_Act):
    def post(self, request: HttpRequest, project: str, perftest: Any) -> HttpResponse:
        services.perftest_delete(principal=self.principal, row=self.row())
        messages.success(request, _t("The result is removed."))
        return HttpResponseRedirect(reverse("perftests:list", kwargs={"project": project}))


app_name = "perftests"
_HERE = "projects/<slug:project>/perftests"
_ONE = f"{_HERE}/<uuid:perftest>"
urlpatterns = [
    path(f"{_HERE}/", PerfTestList.as_view(), name="list"),
    path(f"{_HERE}/new", PerfTestNew.as_view(), name="new"),
    path(f"{_ONE}/", PerfTestDetail.as_view(), name="detail"),
    path(f"{_ONE}/again", PerfTestAgain.as_view(), name="again"),
    path(f"{_ONE}/baseline", ChooseBaseline.as_view(), name="baseline"),
    path(f"{_ONE}/delete", PerfTestDelete.as_view(), name="delete"),
]
