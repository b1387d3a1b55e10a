"""The form of a search: its parameters one a row, the job of its trials, how long it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.errors import wrong
from experiments.api import ExperimentIn
from experiments.choices import Algorithm, Goal
from experiments.rules import MAX_PARAMETERS
from experiments.services import NAME_MAX
from jobs.ai_platform.documents import loaded
from jobs.ai_platform.searches import FAILED_USUAL, MAX_PARALLEL, MAX_TRIALS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from common.errors import BerthError

TYPES = [("double", _("number")), ("int", _("whole number")), ("categorical", _("one of a list"))]
EXAMPLE_JOB = """\
command: [python, train.py]
args: ["--lr=${trialParameters.lr}"]
"""
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
_CODE = {"class": "font-monospace", "spellcheck": "false"}


class ParameterForm(forms.Form):
    """One row: a parameter, and between which values it lies."""

    name = forms.CharField(label=_("Name"), max_length=63, required=False)
    type = forms.ChoiceField(label=_("Kind"), choices=TYPES, required=False)
    min = forms.FloatField(label=_("Min"), required=False)
    max = forms.FloatField(label=_("Max"), required=False)
    step = forms.FloatField(label=_("Step size"), required=False)
    values = forms.CharField(label=_("List, by commas"), required=False, max_length=20_000)
    log = forms.BooleanField(label=_("Logarithmic"), required=False)

    def said(self) -> dict[str, Any] | None:
        """Return what the row says, None where it is empty."""
        given = self.cleaned_data
        if not given["name"]:
            return None
        if given["type"] == "categorical":
            values = [one.strip() for one in given["values"].split(",") if one.strip()]
            return {"name": given["name"], "type": "categorical", "values": values}
        numbers = {key: given[key] for key in ("min", "max", "step") if given[key] is not None}
        log = {"log": True} if given["log"] else {}
        return {"name": given["name"], "type": given["type"] or "double", **numbers, **log}


ParameterRows = forms.formset_factory(
    ParameterForm, extra=0, min_num=1, max_num=MAX_PARAMETERS, absolute_max=MAX_PARAMETERS
)


class ExperimentForm(forms.Form):
    """All of a search but its parameters."""

    name = forms.CharField(label=_("Name"), max_length=NAME_MAX)
    metric = forms.CharField(
        label=_("Metric"),
        max_length=63,
        help_text=_("A trial prints the metric as a line “name=value”, as often as it likes."),
    )
    objective = forms.ChoiceField(label=_("Objective"), choices=Goal.choices)
    algorithm = forms.ChoiceField(
        label=_("Values are chosen by"), choices=Algorithm.choices, initial=Algorithm.TPE
    )
    job = forms.CharField(
        label=_("Job of each trial"),
        initial=EXAMPLE_JOB,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 8, **_CODE}),
        help_text=_("Fields of a job. ${trialParameters.NAME} stands where a value goes."),
    )
    trials_max = forms.IntegerField(
        label=_("Trials"), initial=20, min_value=1, max_value=MAX_TRIALS
    )
    parallel = forms.IntegerField(
        label=_("At the same time"), initial=2, min_value=1, max_value=MAX_PARALLEL
    )
    failed_max = forms.IntegerField(
        label=_("Failed trials at most"), initial=FAILED_USUAL, min_value=0, max_value=MAX_TRIALS
    )
    gpu_hours = forms.FloatField(label=_("GPU-hours at most"), required=False, min_value=0.01)
    goal = forms.FloatField(label=_("Ends when the metric reaches"), required=False)
    early_stopping = forms.BooleanField(
        label=_("End trials that are worse than the median of those before"), required=False
    )

    def said(self, rows: Any) -> dict[str, Any]:
        """Return what it says with its rows, checked as the API checks it."""
        job = typed(self.cleaned_data["job"])
        if not isinstance(job, dict):
            raise wrong("job", _t("It must be a mapping."))
        given = {key: value for key, value in self.cleaned_data.items() if value is not None}
        parameters = [said for row in rows if (said := row.said())]
        return checked({**given, "job": job, "parameters": parameters})


class HowLongForm(forms.Form):
    """How long a search goes on: what may change while it runs."""

    trials_max = forms.IntegerField(label=_("Trials"), min_value=1, max_value=MAX_TRIALS)
    parallel = forms.IntegerField(label=_("At the same time"), min_value=1, max_value=MAX_PARALLEL)
    failed_max = forms.IntegerField(
        label=_("Failed trials at most"), min_value=0, max_value=MAX_TRIALS
    )
    gpu_hours = forms.FloatField(label=_("GPU-hours at most"), required=False, min_value=0.01)
    goal = forms.FloatField(label=_("Ends when the metric reaches"), required=False)


class DocumentForm(forms.Form):
    """A search as one document: the same that the command line sends."""

    document = forms.CharField(
        label=_("Search"),
        initial=EXAMPLE,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 20, **_CODE}),
        help_text=_("A trial prints the metric as a line “name=value”, as often as it likes."),
    )

    def said(self) -> dict[str, Any]:
        """Return what it says, checked as the API checks it."""
        document = typed(self.cleaned_data["document"])
        if not isinstance(document, dict):
            raise wrong("document", _t("It must be a mapping."))
        if document.pop("kind", "Experiment") != "Experiment":
            raise wrong("document", _t("Its kind is Experiment."))
        return checked(document, "document")


class _Loader(yaml.SafeLoader):
    """YAML's own types as JSON has them: a day stays the text that stands there."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, found) for tag, found in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def typed(text: str) -> Any:
    """Return what a document says; Invalid: it is none, or larger or deeper than any is."""
    loaded(text)
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe one
    except (yaml.YAMLError, ValueError) as error:  # what its own types can't be
        raise wrong("document", str(error)[:200]) from error


def at_the_job(error: BerthError) -> BerthError:
    """What is wrong with a field of the job stands at the job, by its name."""
    known = {*ExperimentForm.base_fields, "parameters"}
    strange = {name: said for name, said in error.fields.items() if name not in known}
    if not strange:
        return error
    return wrong("job", " ".join(f"{name}: {' '.join(said)}" for name, said in strange.items()))


def checked(said: Mapping[str, Any], field: str = "") -> dict[str, Any]:
    """Return it as the API takes it, or say at ``field`` (or at its own) what is wrong."""
    shape = ExperimentIn(data=said)
    if not shape.is_valid():
        errors = _plain(shape.errors)
        text = yaml.safe_dump(errors, allow_unicode=True, sort_keys=False).strip()
        raise wrong(field or next(iter(errors)), text)
    return dict(shape.validated_data)


def _plain(errors: Any) -> Any:
    if isinstance(errors, dict):
        return {str(name): _plain(one) for name, one in errors.items() if one}
    return [_plain(one) for one in errors if one] if isinstance(errors, list) else str(errors)
