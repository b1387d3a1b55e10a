# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The pages of searches: the list, a new one, one with its trials."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _t

from common.errors import BerthError, wrong
from common.paging import PER_PAGE, paginate
from common.ui.responses import go, refuse
from experiments import charts, selectors, services
from experiments.choices import LIVE, State, TrialState
from experiments.forms import (
    DocumentForm,
    ExperimentForm,
    HowLongForm,
    ParameterRows,
    at_the_job,
)
from experiments.models import Trial
from experiments.rules import MAX_PARAMETERS
from jobs.tensorboard import is_offered
from projects.access import Permission
from projects.ui.base import ProjectView

ROWS = "parameters"
FIRST = {"name": "lr", "type": "double", "min": 0.0001, "max": 0.1, "log": True}
FORM_FIELDS = tuple(ExperimentForm.base_fields)
# Beside each other: how long it goes on.
END = ("trials_max", "parallel", "failed_max", "gpu_hours", "goal", "early_stopping")


class ExperimentList(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.JOB_READ}
    template_name = "experiments/list.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        page = paginate(request, selectors.visible_to(self.principal, self.project))
        return self.render({"page": page, "rows": page.object_list})


class ExperimentNew(ProjectView):
    """A row per parameter; a button adds or takes away one, also without JavaScript."""

    required_permissions: ClassVar = {"GET": Permission.JOB_CREATE, "POST": Permission.JOB_CREATE}
    template_name = "experiments/new.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        if "document" in request.GET:
            return self.render({"document": DocumentForm()})
        return self._shown(ExperimentForm(), ParameterRows(prefix=ROWS, initial=[FIRST]))

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        if "document" in request.POST:
            return self._from_document(request)
        if "add" in request.POST or "remove" in request.POST:
            return self._other_rows(request)
        form, rows = ExperimentForm(request.POST), ParameterRows(request.POST, prefix=ROWS)
        if not (form.is_valid() and rows.is_valid()):
            return self._shown(form, rows, status=422)
        try:
            if "plan" in request.POST:
                return self._shown(form, rows, plan=self._plan(form.said(rows)))
            row = services.experiment_create(
                principal=self.principal, project=self.project, said=form.said(rows)
            )
        except BerthError as error:
            return self._shown(form, rows, status=refuse(request, form, at_the_job(error)))
        return HttpResponseRedirect(row.get_absolute_url())

    def _plan(self, said: dict[str, Any]) -> list[str]:
        """Return what would come of it, in sentences; why it would be refused is the first."""
        _row, plan, refusal = services.experiment_plan(
            principal=self.principal, project=self.project, said=said
        )
        return [*filter(None, [refusal]), *plan.sentences]

    def _from_document(self, request: HttpRequest) -> HttpResponse:
        form = DocumentForm(request.POST)
        if not form.is_valid():
            return self.render({"document": form}, status=422)
        try:
            if "plan" in request.POST:
                return self.render({"document": form, "plan": self._plan(form.said())})
            row = services.experiment_create(
                principal=self.principal, project=self.project, said=form.said()
            )
        except BerthError as error:
            return self.render({"document": form}, status=refuse(request, form, error))
        return HttpResponseRedirect(row.get_absolute_url())

    def _other_rows(self, request: HttpRequest) -> HttpResponse:
        """All that was typed, with a row more or less."""
        typed = ParameterRows(request.POST, prefix=ROWS)
        gone = request.POST.get("remove", "")
        kept = [
            {name: row[name].value() for name in row.fields}
            for number, row in enumerate(typed)
            if str(number) != gone
        ]
        kept += [{}] if "add" in request.POST and len(kept) < MAX_PARAMETERS else []
        form = ExperimentForm(initial={name: request.POST.get(name) for name in FORM_FIELDS})
        rows = ParameterRows(prefix=ROWS, initial=kept)
        if "add" in request.POST:  # who added a row is to name it
            rows.forms[-1].fields["name"].widget.attrs["autofocus"] = True
        return self._shown(form, rows)

    def _shown(
        self, form: ExperimentForm, rows: Any, *, status: int = 200, **more: Any
    ) -> HttpResponse:
        head = [form[name] for name in FORM_FIELDS if name not in (*END, "job")]
        end = [form[name] for name in END]
        groups = {"form": form, "head": head, "job": [form["job"]], "end": end}
        said = {**groups, **more, "rows": rows, "most": MAX_PARAMETERS}
        return self.render(said, status=status)


class ExperimentDetail(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.JOB_READ}
    template_name = "experiments/detail.html"

    def get(self, request: HttpRequest, project: str, experiment: Any) -> HttpResponse:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        trials = list(row.trials.defer("curve"))
        best = services.best_of(row, trials)
        by_number = request.GET.get("order") == "number"
        ordered = Paginator(trials if by_number else services.best_first(row, trials), PER_PAGE)
        page = ordered.get_page(request.GET.get("page"))
        wanted = [one.pk for one in page] + ([best.pk] if best else [])
        whole = selectors.trials_of(row).filter(pk__in=wanted).in_bulk()
        mine = row.owner_id == self.principal.user.pk
        manages = self.can(Permission.JOB_CREATE if mine else Permission.JOB_MANAGE)
        over = row.state not in LIVE
        begun = next((one.job for one in whole.values() if one.job), None)  # alike in what it keeps
        said = {
            "row": row,
            "page": page,
            "rows": [_told(whole[one.pk]) for one in page if one.pk in whole],
            "by_number": by_number,
            "best": best,
            "best_values": _values(best) if best else [],
            "objective": charts.objective(row, trials),
            "curves": charts.curves(list(whole.values()), best),
            "parallel": charts.parallel(row, trials, best),
            "runs": row.state == State.RUNNING,
            "running": sum(one.state == TrialState.RUNNING for one in trials),
            "trial_runs": TrialState.RUNNING,
            "shows_curves": begun is not None and is_offered(self.principal, begun),
            "may_stop": manages,
            "mine": mine,
            "owner": "" if mine else row.owner.label,
            "over": over,
            "goal": charts.shown(row.goal),
            "how_long": HowLongForm(initial={n: getattr(row, n) for n in HowLongForm.base_fields}),
            "gpu_hours": sum(one.gpu_seconds for one in trials) / 3600,
        }
        return self.render(said)


def _told(trial: Trial) -> dict[str, Any]:
    value = None if trial.value is None else charts.shown(trial.value)
    return {"trial": trial, "value": value, "values": _values(trial)}


def _values(trial: Trial) -> list[tuple[str, str, str]]:
    """Return each parameter with its value as it is compared, and as it is."""
    return [(name, charts.shown(value), str(value)) for name, value in trial.parameters.items()]


class ExperimentStop(ProjectView):
    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}
    stands_on = ExperimentDetail

    def post(self, request: HttpRequest, project: str, experiment: Any) -> HttpResponse:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        said = request.POST.get("reason", "")
        services.experiment_stop(principal=self.principal, row=row, said=said)
        messages.success(request, _t("The search and its trials are being stopped."))
        return HttpResponseRedirect(row.get_absolute_url())


class ExperimentEdit(ProjectView):
    """How long it goes on; of one that is over: that it goes on."""

    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}
    stands_on = ExperimentDetail

    def post(self, request: HttpRequest, project: str, experiment: Any) -> HttpResponse:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        form = HowLongForm(request.POST)
        if not form.is_valid():
            raise wrong(next(iter(form.errors)), str(next(iter(form.errors.values()))[0]))
        restart = "restart" in request.POST
        services.experiment_edit(
            principal=self.principal, row=row, said=form.cleaned_data, restart=restart
        )
        done = _t("The search goes on.") if restart else _t("The search is changed.")
        messages.success(request, done)
        return HttpResponseRedirect(row.get_absolute_url())


class ExperimentDelete(ProjectView):
    required_permissions: ClassVar = {"POST": Permission.JOB_READ}
    stands_on = ExperimentDetail

    def post(self, request: HttpRequest, project: str, experiment: Any) -> HttpResponse:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        said = request.POST.get("reason", "")
        services.experiment_delete(principal=self.principal, row=row, said=said)
        messages.success(request, _t("%(name)s and its jobs are deleted.") % {"name": row.name})
        return HttpResponseRedirect(reverse("experiments:list", args=[self.project.slug]))


class TrialStop(ProjectView):
    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}
    stands_on = ExperimentDetail

    def post(
        self, request: HttpRequest, project: str, experiment: Any, number: int
    ) -> HttpResponse:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        trial, said = selectors.trial_get(row, number), request.POST.get("reason", "")
        services.trial_stop(principal=self.principal, trial=trial, said=said)
        messages.success(request, _t("Trial %(n)d is being stopped.") % {"n": number})
        return HttpResponseRedirect(row.get_absolute_url())


class ExperimentCurves(ProjectView):
    """A press that opens TensorBoard on its trials, the best first."""

    required_permissions: ClassVar = {"POST": Permission.JOB_READ}
    stands_on = ExperimentDetail

    def post(self, request: HttpRequest, project: str, experiment: Any) -> HttpResponse:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        made = services.experiment_tensorboard(principal=self.principal, row=row, must_fit=True)
        return go(request, f"{made.get_absolute_url()}?open=1")


class ExperimentPromote(ProjectView):
    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}
    stands_on = ExperimentDetail

    def post(self, request: HttpRequest, project: str, experiment: Any) -> HttpResponse:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        job = services.experiment_promote(principal=self.principal, row=row)
        return HttpResponseRedirect(job.get_absolute_url())


app_name = "experiments"
_HERE = "projects/<slug:project>/experiments"
_ONE = f"{_HERE}/<uuid:experiment>"
urlpatterns = [
    path(f"{_HERE}/", ExperimentList.as_view(), name="list"),
    path(f"{_HERE}/new", ExperimentNew.as_view(), name="new"),
    path(f"{_ONE}/", ExperimentDetail.as_view(), name="detail"),
    path(f"{_ONE}/stop", ExperimentStop.as_view(), name="stop"),
    path(f"{_ONE}/edit", ExperimentEdit.as_view(), name="edit"),
    path(f"{_ONE}/delete", ExperimentDelete.as_view(), name="delete"),
    path(f"{_ONE}/tensorboard", ExperimentCurves.as_view(), name="tensorboard"),
    path(f"{_ONE}/promote", ExperimentPromote.as_view(), name="promote"),
    path(f"{_ONE}/trials/<int:number>/stop", TrialStop.as_view(), name="trial-stop"),
]
