# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The API of searches for parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django.urls import path
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.response import Response

from common.drf.serializers import StrictSerializer, given
from common.errors import wrong
from common.manifests import parse
from experiments import selectors, services
from experiments.choices import Algorithm, Engine, Goal, Reason, State, TrialState
from experiments.models import Experiment, Trial
from jobs.ai_platform.searches import FAILED_USUAL, MAX_PARALLEL, MAX_TRIALS
from jobs.runs_api import TensorBoardOut
from projects.access import Permission
from projects.api.base import ProjectAPIView, ReasonIn, reason_in

if TYPE_CHECKING:
    from rest_framework.request import Request


class FiniteField(serializers.FloatField):
    """A number: what is none, or beyond all of them, can't be compared or told again."""

    def to_internal_value(self, data: Any) -> float:
        found = super().to_internal_value(data)
        if not math.isfinite(found):
            self.fail("invalid")
        return found


class ParameterIn(StrictSerializer):
    name = serializers.CharField(max_length=63)
    type = serializers.ChoiceField(["double", "int", "categorical"])
    min = FiniteField(required=False)
    max = FiniteField(required=False)
    step = FiniteField(required=False)
    log = serializers.BooleanField(required=False, help_text="on a logarithmic scale")
    values = serializers.ListField(
        child=serializers.CharField(max_length=200), required=False, help_text="of a categorical"
    )


class ExperimentIn(StrictSerializer):
    name = serializers.CharField(max_length=services.NAME_MAX)
    job = serializers.DictField(
        help_text="the fields of a job, with ${trialParameters.name} where a value goes"
    )
    parameters = ParameterIn(many=True)
    metric = serializers.CharField(
        max_length=63, help_text="the name that a trial prints it by: name=value"
    )
    objective = serializers.ChoiceField(Goal.choices, default=Goal.MAXIMIZE.value)
    goal = FiniteField(required=False, allow_null=True, help_text="ends the search")
    algorithm = serializers.ChoiceField(Algorithm.choices, default=Algorithm.TPE.value)
    seed = serializers.IntegerField(required=False, min_value=0, max_value=2**31 - 1)
    trials_max = serializers.IntegerField(min_value=1, max_value=MAX_TRIALS, default=20)
    parallel = serializers.IntegerField(min_value=1, max_value=MAX_PARALLEL, default=2)
    failed_max = serializers.IntegerField(
        min_value=0,
        max_value=MAX_TRIALS,
        default=FAILED_USUAL,
        help_text="more failed trials end it",
    )
    gpu_hours = FiniteField(required=False, allow_null=True, min_value=0.01, max_value=1e6)
    early_stopping = serializers.BooleanField(
        default=False, help_text="end trials that are worse than the median of those before"
    )


class EditIn(StrictSerializer):
    """How long a search goes on; what is not said stays as it is."""

    trials_max = serializers.IntegerField(min_value=1, max_value=MAX_TRIALS, required=False)
    parallel = serializers.IntegerField(min_value=1, max_value=MAX_PARALLEL, required=False)
    failed_max = serializers.IntegerField(min_value=0, max_value=MAX_TRIALS, required=False)
    goal = FiniteField(required=False, allow_null=True)
    gpu_hours = FiniteField(required=False, allow_null=True, min_value=0.01, max_value=1e6)


class TrialOut(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    state = serializers.ChoiceField(TrialState.choices)
    parameters = serializers.DictField()
    value = serializers.FloatField(allow_null=True)
    curve = serializers.ListField(child=serializers.FloatField())
    job = serializers.CharField(source="job.short_id", default=None, allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class ExperimentOut(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="uid")
    name = serializers.CharField()
    owner = serializers.CharField(source="owner.username")
    state = serializers.ChoiceField(State.choices)
    reason = serializers.ChoiceField(Reason.choices, allow_blank=True)
    message = serializers.CharField(allow_blank=True)
    metric = serializers.CharField()
    objective = serializers.ChoiceField(Goal.choices)
    goal = serializers.FloatField(allow_null=True)
    algorithm = serializers.ChoiceField(Algorithm.choices)
    engine = serializers.ChoiceField(Engine.choices, help_text="what chooses the values")
    seed = serializers.IntegerField()
    trials_max = serializers.IntegerField()
    parallel = serializers.IntegerField()
    failed_max = serializers.IntegerField()
    gpu_hours = serializers.FloatField(allow_null=True)
    early_stopping = serializers.BooleanField()
    begun = serializers.IntegerField(help_text="trials")
    done = serializers.IntegerField(help_text="trials that are over")
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class ExperimentDetailOut(ExperimentOut):
    parameters = serializers.ListField(child=serializers.DictField())
    best = TrialOut(allow_null=True)
    trials = TrialOut(many=True)


class PromoteIn(StrictSerializer):
    name = serializers.CharField(max_length=63, required=False, default="")


class PromotedOut(serializers.Serializer[Any]):
    id = serializers.CharField(source="short_id")
    name = serializers.CharField()


class Experiments(ProjectAPIView):
    """Searches of a project, newest first. POST begins one."""

    required_permissions: ClassVar = {"GET": Permission.JOB_READ, "POST": Permission.JOB_CREATE}
    queryset = Experiment.objects.none()
    serializer_class = ExperimentOut

    @extend_schema(operation_id="experiments_list", responses=ExperimentOut(many=True))
    def get(self, request: Request, project: str) -> Response:
        rows = selectors.visible_to(self.principal, self.project)
        page = self.paginate_queryset(rows) or []
        return self.get_paginated_response(ExperimentOut(page, many=True).data)

    @extend_schema(
        operation_id="experiments_create",
        request=ExperimentIn,
        responses={202: ExperimentDetailOut},
    )
    def post(self, request: Request, project: str) -> Response:
        said = given(ExperimentIn, request)
        row = services.experiment_create(principal=self.principal, project=self.project, said=said)
        return _told(self, row, status.HTTP_202_ACCEPTED)


class ApplyExperiment(ProjectAPIView):
    """Begin a search as a manifest says, or change how long it goes on."""

    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}

    @extend_schema(
        operation_id="experiments_apply",
        request=OpenApiTypes.OBJECT,
        parameters=[OpenApiParameter("plan", OpenApiTypes.INT, description="1: only say what")],
        responses={202: ExperimentDetailOut, 200: OpenApiTypes.OBJECT},
    )
    def post(self, request: Request, project: str) -> Response:
        said = said_in(request.data)
        if said.pop("project") not in {"", self.project.slug}:
            raise wrong("metadata.project", _("The address names another project."))
        plan = request.query_params.get("plan") == "1"
        found = services.experiment_apply(
            principal=self.principal, project=self.project, said=said, plan=plan
        )
        if not plan:
            return _told(self, found.row, status.HTTP_202_ACCEPTED)
        answer = {
            "action": found.action,
            "name": found.row.name,
            "changes": [{"field": c.field, "from": c.before, "to": c.after} for c in found.changes],
            "sentences": [*filter(None, [found.refusal]), *found.sentences],
            "allowed": not found.refusal,
            "refusal": found.refusal,
        }
        return Response(answer)


class OneExperiment(ProjectAPIView):
    """One search with its trials."""

    required_permissions: ClassVar = {
        "GET": Permission.JOB_READ,
        "PATCH": Permission.JOB_CREATE,
        "DELETE": Permission.JOB_READ,  # its owner, or who may manage: the service decides
    }

    @extend_schema(
        operation_id="experiments_edit", request=EditIn, responses={202: ExperimentDetailOut}
    )
    def patch(self, request: Request, project: str, experiment: Any) -> Response:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        said = given(EditIn, request)
        row = services.experiment_edit(principal=self.principal, row=row, said=said)
        return _told(self, row, status.HTTP_202_ACCEPTED)

    @extend_schema(
        operation_id="experiments_delete",
        parameters=[OpenApiParameter("reason", OpenApiTypes.STR)],
        responses={204: None},
    )
    def delete(self, request: Request, project: str, experiment: Any) -> Response:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        services.experiment_delete(principal=self.principal, row=row, said=reason_in(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(operation_id="experiments_show", responses=ExperimentDetailOut)
    def get(self, request: Request, project: str, experiment: Any) -> Response:
        return _told(self, selectors.experiment_get(self.principal, self.project, experiment))


class RestartExperiment(ProjectAPIView):
    """Let a search that is over go on from its trials, with more of them."""

    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}

    @extend_schema(
        operation_id="experiments_restart", request=EditIn, responses={202: ExperimentDetailOut}
    )
    def post(self, request: Request, project: str, experiment: Any) -> Response:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        said = given(EditIn, request)
        row = services.experiment_edit(principal=self.principal, row=row, said=said, restart=True)
        return _told(self, row, status.HTTP_202_ACCEPTED)


class StopExperiment(ProjectAPIView):
    """Stop a search and its trials."""

    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}

    @extend_schema(
        operation_id="experiments_stop", request=ReasonIn, responses={202: ExperimentDetailOut}
    )
    def post(self, request: Request, project: str, experiment: Any) -> Response:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        services.experiment_stop(principal=self.principal, row=row, said=reason_in(request))
        return _told(self, row, status.HTTP_202_ACCEPTED)


class StopTrial(ProjectAPIView):
    """Stop one trial; the search goes on."""

    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}

    @extend_schema(
        operation_id="experiments_trial_stop",
        request=ReasonIn,
        responses={202: ExperimentDetailOut},
    )
    def post(self, request: Request, project: str, experiment: Any, number: int) -> Response:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        trial = selectors.trial_get(row, number)
        services.trial_stop(principal=self.principal, trial=trial, said=reason_in(request))
        return _told(self, row, status.HTTP_202_ACCEPTED)


class PromoteExperiment(ProjectAPIView):
    """Run a job with the values of the best trial."""

    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}

    @extend_schema(
        operation_id="experiments_promote", request=PromoteIn, responses={202: PromotedOut}
    )
    def post(self, request: Request, project: str, experiment: Any) -> Response:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        name = given(PromoteIn, request)["name"]
        job = services.experiment_promote(principal=self.principal, row=row, name=name)
        return Response(PromotedOut(job).data, status=status.HTTP_202_ACCEPTED)


class ExperimentTensorBoard(ProjectAPIView):
    """Open TensorBoard on what the trials of a search write, the best first: a workspace of one's
    own, one for the same trials.
    """

    required_permissions: ClassVar = {"POST": Permission.JOB_READ}

    @extend_schema(
        operation_id="experiments_tensorboard", request=None, responses={202: TensorBoardOut}
    )
    def post(self, request: Request, project: str, experiment: Any) -> Response:
        row = selectors.experiment_get(self.principal, self.project, experiment)
        made = services.experiment_tensorboard(principal=self.principal, row=row)
        told = TensorBoardOut({"workspace": made.short_id, "name": made.name}).data
        return Response(told, status=status.HTTP_202_ACCEPTED)


def _told(view: ProjectAPIView, row: Experiment, code: int = status.HTTP_200_OK) -> Response:
    row = selectors.experiment_get(view.principal, view.project, row.uid)
    trials: list[Trial] = list(selectors.trials_of(row))
    told = {
        **ExperimentOut(row).data,
        "parameters": row.parameters,
        "best": TrialOut(best).data if (best := services.best_of(row, trials)) else None,
        "trials": TrialOut(trials, many=True).data,
    }
    return Response(told, status=code)


def said_in(document: Any) -> dict[str, Any]:
    """Return what a document says of a search, checked: a manifest, or its fields at the top."""
    if not isinstance(document, Mapping):
        raise wrong("document", _("It must be a mapping."))
    fields = {name: value for name, value in document.items() if name != "kind"}
    if document.get("kind", "Experiment") != "Experiment":
        raise wrong("kind", _("Its kind is Experiment."))
    named = ""
    if "spec" in document:
        read = parse(document, kind="Experiment", spec=dict.fromkeys(ExperimentIn().fields, object))
        fields, named = {**read.spec, "name": read.name}, read.project
    shape = ExperimentIn(data=fields)
    shape.is_valid(raise_exception=True)
    return {**shape.validated_data, "project": named}


_ONE = "projects/<slug:project>/experiments/<uuid:experiment>"
urlpatterns = [
    path("projects/<slug:project>/experiments", Experiments.as_view(), name="api-experiments"),
    path(
        "projects/<slug:project>/experiments/apply",
        ApplyExperiment.as_view(),
        name="api-experiment-apply",
    ),
    path(_ONE, OneExperiment.as_view(), name="api-experiment"),
    path(f"{_ONE}/stop", StopExperiment.as_view(), name="api-experiment-stop"),
    path(f"{_ONE}/restart", RestartExperiment.as_view(), name="api-experiment-restart"),
    path(f"{_ONE}/tensorboard", ExperimentTensorBoard.as_view(), name="api-experiment-tensorboard"),
    path(f"{_ONE}/promote", PromoteExperiment.as_view(), name="api-experiment-promote"),
    path(f"{_ONE}/trials/<int:number>/stop", StopTrial.as_view(), name="api-experiment-trial-stop"),
]
