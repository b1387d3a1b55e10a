# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The pages of searches: the list, a new one, one with its trials."""

from __future__ import annotations

from typing import Any, ClassVar

import yaml
from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.errors import BerthError, wrong
from common.paging import paginate
from common.ui.responses import refuse
from experiments import charts, selectors, services
from experiments.api import ExperimentIn
from experiments.choices import State, TrialState
from jobs.ai_platform.documents import loaded
from projects.access import Permission
from projects.ui.base import ProjectView

EXAMPLE = """\
kind: Experiment
name: learning-rate
metric: accuracy
objective: maximize
algorithm: tpe
trials_max: 8
parallel: 2
parameters:
  - {name: lr, type: double, min: 0.0001, max: 0.1, log: true}
  - {name: layers, type: int, min: 1, max: 4}
job:
  command: [python, train.py]
  args: ["--lr=${trialParameters.lr}", "--layers=${trialParameters.layers}"]
"""


class ExperimentForm(forms.Form):
    """A search as one document: the same that the command line sends."""

    document = forms.CharField(
        label=_("Search"),
        initial=EXAMPLE,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 20, "class": "font-monospace", "spellcheck": "false"}),
        help_text=_("A trial prints the metric as a line “name=value”, as often as it likes."),
    )

    def said(self) -> dict[str, Any]:
        """Return what it says, checked as the API checks it."""
        document = loaded(self.cleaned_data["document"])
        if not isinstance(document, dict):
            raise wrong("document", _t("It must be a mapping."))
        if document.pop("kind", "Experiment") != "Experiment":
            raise wrong("document", _t("Its kind is Experiment."))
        shape = ExperimentIn(data=document)
        if not shape.is_valid():
            text = yaml.safe_dump(_plain(shape.errors), allow_unicode=True, sort_keys=False)
            raise wrong("document", text.strip())
        return dict(shape.validated_data)


def _plain(errors: Any) -> Any:
    if isinstance(errors, dict):
        return {str(name): _plain(one) for name, one in errors.items() if one}
    return [_plain(one) for one in errors if one] if isinstance(errors, list) else str(errors)


class ExperimentList(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.JOB_READ}
    template_name = "experiments/list.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        page = paginate(request, selectors.visible_to(self.principal, self.project))
        return self.render({"page": page, "rows": page.object_list})


class ExperimentNew(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.JOB_CREATE, "POST": Permission.JOB_CREATE}
    template_name = "experiments/new.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        return self.render({"form": ExperimentForm()})

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = ExperimentForm(request.POST)
        if not form.is_valid():
            return self.render({"form": form}, status=422)
        try:
            row = services.experiment_create(
                principal=self.principal, project=self.project, said=form.said()
            )
        except BerthError as error:
            return self.render({"form": form}, status=refuse(request, form, error))
        return HttpResponseRedirect(row.get_absolute_url())


class ExperimentDetail(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.JOB_READ}
    template_name = "experiments/detail.html"

    def get(self, request: HttpRequest, project: str, experiment: Any) -> HttpResponse:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        trials = selectors.trials_of(row)
        best = services.best_of(row, trials)
        mine = row.owner_id == self.principal.user.pk
        said = {
            "row": row,
            "trials": trials,
            "best": best,
            "objective": charts.objective(row, trials),
            "parallel": charts.parallel(row, trials, best),
            "runs": row.state == State.RUNNING,
            "trial_runs": TrialState.RUNNING,
            "may_stop": mine and self.can(Permission.JOB_CREATE),
        }
        return self.render(said)


class ExperimentStop(ProjectView):
    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}
    stands_on = ExperimentDetail

    def post(self, request: HttpRequest, project: str, experiment: Any) -> HttpResponse:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        services.experiment_stop(principal=self.principal, row=row)
        messages.success(request, _t("The search and its trials are being stopped."))
        return HttpResponseRedirect(row.get_absolute_url())


class TrialStop(ProjectView):
    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}

    def post(
        self, request: HttpRequest, project: str, experiment: Any, number: int
    ) -> HttpResponse:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        services.trial_stop(principal=self.principal, trial=selectors.trial_get(row, number))
        messages.success(request, _t("Trial %(n)d is being stopped.") % {"n": number})
        return HttpResponseRedirect(row.get_absolute_url())


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
    path(f"{_ONE}/promote", ExperimentPromote.as_view(), name="promote"),
    path(f"{_ONE}/trials/<int:number>/stop", TrialStop.as_view(), name="trial-stop"),
]
