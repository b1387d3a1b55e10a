# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Training jobs in the words and shapes of AI Platform Training, below ``…/ai-platform/jobs``.

Their logs, and how one is cancelled, are those of the job of that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.urls import path
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.response import Response

from common.drf.serializers import StrictSerializer, given
from common.errors import NotFound
from jobs.ai_platform.documents import MAX_BYTES
from jobs.ai_platform.searches import searches
from jobs.ai_platform.services import training_plan, training_submit
from jobs.api import API
from jobs.choices import State
from jobs.kind import JOB
from jobs.models import Job
from jobs.states import state_of, why_of
from projects.access import Permission
from projects.api.base import ProjectAPIView, ReasonIn, reason_in
from work.api import render
from work.api.views import PLAN
from work.selectors import is_owner, visible_to
from work.services import workload_stop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models import QuerySet
    from rest_framework.request import Request

    from accounts.principal import Principal

_STATES = {
    State.QUEUED: "QUEUED",
    State.STARTING: "PREPARING",
    State.RUNNING: "RUNNING",
    State.CANCELLING: "CANCELLING",
    State.DELETING: "CANCELLING",
    State.SUCCEEDED: "SUCCEEDED",
    State.FAILED: "FAILED",
    State.CANCELLED: "CANCELLED",
}
_PRIVATE = ("args",)  # what only the owner of a job reads: people write secrets there
_PRIVATE_OF_ROLE = ("containerCommand", "containerArgs")


class TrainingIn(StrictSerializer):
    jobId = serializers.CharField(max_length=63)  # noqa: N815 - as AI Platform has it
    config = serializers.CharField(
        required=False,
        allow_blank=True,
        trim_whitespace=False,
        max_length=MAX_BYTES,
        help_text="a config.yaml, as it is",
    )
    trainingInput = serializers.DictField(  # noqa: N815
        required=False, help_text="on top of what the file says"
    )
    labels = serializers.DictField(required=False)
    package = serializers.CharField(
        required=False, max_length=80, help_text="of a folder that was sent before"
    )
    job = serializers.DictField(
        required=False, help_text="what the file has no words for: volumes, credentials, cluster"
    )


class TrainingOut(serializers.Serializer[Any]):
    """What is not known yet is left out."""

    jobId = serializers.CharField()  # noqa: N815
    state = serializers.ChoiceField(sorted(set(_STATES.values())))
    createTime = serializers.DateTimeField()  # noqa: N815
    startTime = serializers.DateTimeField(required=False)  # noqa: N815
    endTime = serializers.DateTimeField(required=False)  # noqa: N815
    errorMessage = serializers.CharField(required=False)  # noqa: N815
    labels = serializers.DictField(required=False)
    trainingInput = serializers.DictField()  # noqa: N815
    trainingOutput = serializers.DictField(  # noqa: N815
        required=False, help_text="of a search: its trials, the best first"
    )


class TrainingLineOut(serializers.Serializer[Any]):
    field = serializers.CharField(help_text='"": it follows from several fields')
    value = serializers.CharField()
    becomes = serializers.CharField()
    why = serializers.CharField()
    refused = serializers.BooleanField()


class TrainingPlanOut(serializers.Serializer[Any]):
    jobId = serializers.CharField()  # noqa: N815
    allowed = serializers.BooleanField()
    refusal = serializers.CharField()
    fields = TrainingLineOut(many=True)  # type: ignore[assignment]
    plan = API.plans(allow_null=True)


class TrainingJobs(ProjectAPIView):
    """The training jobs of a project that were submitted so, newest first. POST submits one."""

    required_permissions: ClassVar = {"GET": Permission.JOB_READ, "POST": Permission.JOB_CREATE}
    queryset = Job.objects.none()
    serializer_class = TrainingOut

    @extend_schema(
        operation_id="ai_platform_jobs_list",
        parameters=[OpenApiParameter("searches", int, description="1: those that are searches")],
        responses=TrainingOut(many=True),
    )
    def get(self, request: Request, project: str) -> Response:
        if request.query_params.get("searches", "") in {"1", "true"}:
            found = searches().listed(self.principal, self.project)
            page = self.paginate_queryset(found) or []
            told = [searches().told(self.principal, row) for row in page]
            return self.get_paginated_response(told)
        page = self.paginate_queryset(_submitted(self.principal, self)) or []
        return self.get_paginated_response([_told(row, self.principal) for row in page])

    @extend_schema(
        operation_id="ai_platform_jobs_submit",
        request=TrainingIn,
        parameters=[PLAN],
        responses={202: TrainingOut, 200: TrainingPlanOut},
    )
    def post(self, request: Request, project: str) -> Response:
        asked = given(TrainingIn, request)
        who: dict[str, Any] = {"principal": self.principal, "project": self.project}
        if request.query_params.get("plan", "") not in {"1", "true"}:
            training_submit(**who, asked=asked)
            found = _of_name(self, asked["jobId"])
            return Response(found, status=status.HTTP_202_ACCEPTED)
        lines, plan, refusal = training_plan(**who, asked=asked)
        told = {
            "jobId": asked["jobId"],
            "allowed": not refusal,
            "refusal": refusal,
            "fields": TrainingLineOut(lines, many=True).data,
            "plan": render.plan_out(API, plan) if plan else None,
        }
        return Response(told)


class TrainingJob(ProjectAPIView):
    """One training job."""

    required_permissions: ClassVar = {"GET": Permission.JOB_READ}

    @extend_schema(operation_id="ai_platform_jobs_describe", responses=TrainingOut)
    def get(self, request: Request, project: str, training: str) -> Response:
        return Response(_of_name(self, training))


class CancelTraining(ProjectAPIView):
    """End one training job, or a search with all its trials."""

    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}

    @extend_schema(
        operation_id="ai_platform_jobs_cancel", request=ReasonIn, responses={202: TrainingOut}
    )
    def post(self, request: Request, project: str, training: str) -> Response:
        who: dict[str, Any] = {"principal": self.principal, "said": reason_in(request)}
        row = _submitted(self.principal, self).filter(name=training).first()
        if row is not None:
            workload_stop(row=row, **who)
        elif (
            search := searches().listed(self.principal, self.project).filter(name=training).first()
        ):
            searches().cancel(row=search, **who)
        return Response(_of_name(self, training), status=status.HTTP_202_ACCEPTED)


def _of_name(view: ProjectAPIView, name: str) -> dict[str, Any]:
    """Return the job or the search of that name, or raise NotFound."""
    if row := _submitted(view.principal, view).filter(name=name).first():
        return _told(row, view.principal)
    search = searches().listed(view.principal, view.project).filter(name=name).first()
    if search is None:
        raise NotFound(_("There is no such thing, or you may not see it."))
    return searches().told(view.principal, search)


def _submitted(who: Principal, view: ProjectAPIView) -> QuerySet[Job]:
    rows = visible_to(who, JOB, view.project)
    return rows.filter(training_input__isnull=False).select_related("training_input")


def _told(row: Job, who: Principal) -> dict[str, Any]:
    """Return a job in the shape of AI Platform Training; what is not known yet is left out."""
    state = state_of(row)
    document = document_for(row.training_input.document, is_owner=is_owner(who, row))
    error = why_of(row).sentence if state == State.FAILED else ""
    told = {
        "jobId": row.name,
        "state": _STATES[state],
        "createTime": row.created_at,
        "startTime": row.started_at,
        "endTime": row.finished_at or (row.stopped_at if state == State.CANCELLED else None),
        "errorMessage": error or None,
        "labels": row.training_input.labels or None,
        "trainingInput": document,
    }
    return {name: value for name, value in told.items() if value is not None}


def document_for(document: Mapping[str, Any], *, is_owner: bool) -> dict[str, Any]:
    """Return a ``trainingInput`` without what its owner alone reads, for others."""
    if is_owner:
        return dict(document)
    return {
        name: {k: v for k, v in value.items() if k not in _PRIVATE_OF_ROLE}
        if isinstance(value, dict)
        else value
        for name, value in document.items()
        if name not in _PRIVATE
    }


urlpatterns = [
    path(
        "projects/<slug:project>/ai-platform/jobs", TrainingJobs.as_view(), name="api-training-jobs"
    ),
    path(
        "projects/<slug:project>/ai-platform/jobs/<str:training>",
        TrainingJob.as_view(),
        name="api-training-job",
    ),
    path(
        "projects/<slug:project>/ai-platform/jobs/<str:training>/cancel",
        CancelTraining.as_view(),
        name="api-training-job-cancel",
    ),
]
