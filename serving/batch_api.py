# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The API of batch predictions. Each is a job: its log, run and end are that one's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.response import Response

from common.drf.serializers import StrictSerializer, given
from common.manifests import parse, require_project
from jobs.fields import MAX_REPLICAS
from jobs.states import OVER, state_of
from projects.access import Permission
from projects.api.base import ProjectAPIView
from serving import selectors
from serving.models import BatchPrediction
from serving.services.batch import (
    ENCODINGS,
    FORMATS,
    MAX_AT_ONCE,
    MAX_BATCH,
    batch_again,
    batch_create,
)
from serving.services.batch_documents import batch_apply
from work.fields import MAX_CPU_MILLI, MAX_GPUS, MAX_MEMORY_MIB

if TYPE_CHECKING:
    from rest_framework.request import Request


class BatchPredictionIn(StrictSerializer):
    model = serializers.CharField(
        required=False, max_length=101, help_text="MODEL, or MODEL/VERSION: by servers of its own"
    )
    endpoint = serializers.CharField(
        required=False, max_length=63, help_text="that is asked instead, through the gateway"
    )
    input = serializers.CharField(
        max_length=1024,
        help_text="volume:NAME/FOLDER, gs://… or s3://…: files .jsonl, .csv or .parquet",
    )
    output = serializers.CharField(
        max_length=1024, help_text="volume:NAME/FOLDER, gs://… or s3://…: a folder for each run"
    )
    credential = serializers.CharField(
        required=False, default="", help_text="that opens the bucket of the input"
    )
    output_credential = serializers.CharField(
        required=False, default="", help_text="that opens the bucket of the output"
    )
    batch = serializers.IntegerField(
        required=False, min_value=1, max_value=MAX_BATCH, help_text="instances in a request"
    )
    at_once = serializers.IntegerField(
        required=False, min_value=1, max_value=MAX_AT_ONCE, help_text="requests at a time"
    )
    instances = serializers.BooleanField(
        default=True, help_text="whether each prediction has its instance beside it"
    )
    format = serializers.ChoiceField(
        FORMATS, required=False, help_text="of the predictions; parquet needs pyarrow there"
    )
    encoding = serializers.ChoiceField(
        ENCODINGS, required=False, help_text="of CSV: cp932 is Shift-JIS as Excel writes it"
    )
    replicas = serializers.IntegerField(
        required=False, min_value=1, max_value=MAX_REPLICAS, help_text="each takes its share"
    )
    cpu_milli = serializers.IntegerField(required=False, min_value=1, max_value=MAX_CPU_MILLI)
    memory_mib = serializers.IntegerField(required=False, min_value=1, max_value=MAX_MEMORY_MIB)
    gpus = serializers.IntegerField(required=False, min_value=0, max_value=MAX_GPUS)
    gpu_flavor = serializers.CharField(required=False, max_length=255)
    time_limit_minutes = serializers.IntegerField(required=False, min_value=0)
    name = serializers.CharField(required=False, max_length=63, help_text="of its job")
    image = serializers.CharField(required=False, max_length=512)
    environment = serializers.CharField(required=False, max_length=255)
    cluster = serializers.CharField(required=False, max_length=63)
    pool = serializers.CharField(required=False, max_length=63)


class AgainIn(StrictSerializer):
    errors_only = serializers.BooleanField(
        default=False,
        help_text="only what it could not predict; else all of its input as it is now",
    )


class FailedBecauseOut(serializers.Serializer[Any]):
    reason = serializers.CharField(help_text="without what it quotes; empty: other reasons")
    count = serializers.IntegerField()


class BatchPredictionOut(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="uid")
    name = serializers.CharField(source="job.name")
    job = serializers.CharField(source="job.short_id")
    model = serializers.SerializerMethodField(help_text="MODEL/VERSION; null: only the endpoint")
    endpoint = serializers.SerializerMethodField(help_text="null: servers of its own")
    input = serializers.CharField()
    output = serializers.CharField()
    state = serializers.SerializerMethodField()
    progress = serializers.FloatField(help_text="from 0 to 1, of all its replicas")
    done = serializers.IntegerField(help_text="instances that were asked, or are none")
    failed = serializers.IntegerField(help_text="of these: what is in errors.jsonl")
    failed_because = FailedBecauseOut(
        many=True, help_text="the most frequent ones first; errors.jsonl has all, line by line"
    )
    per_second = serializers.FloatField(allow_null=True, help_text="instances, of the last minute")
    seconds_left = serializers.IntegerField(allow_null=True, help_text="null: nobody knows")
    input_gone = serializers.BooleanField(
        source="is_input_gone",
        help_text="what was brought from its bucket was removed: errors can't be tried alone",
    )
    errors_of = serializers.SerializerMethodField(
        help_text="id of the one of which only the errors were tried again"
    )
    owner = serializers.CharField(source="job.owner.username")
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(source="job.finished_at", allow_null=True)

    def get_state(self, row: Any) -> str:
        return str(state_of(row.job))

    def get_model(self, row: Any) -> str | None:
        return None if row.is_of_endpoint else str(row.asked)

    def get_endpoint(self, row: Any) -> str | None:
        return str(row.asked) if row.is_of_endpoint else None

    def get_errors_of(self, row: Any) -> str | None:
        return str(row.errors_of.uid) if row.errors_of is not None else None

    def to_representation(self, instance: Any) -> Any:
        found = self.context["progress"].get(instance.job_id, selectors.Progress())
        instance.progress, instance.done, instance.failed = found.share, found.done, found.failed
        instance.failed_because = [{"reason": why, "count": n} for why, n in found.reasons]
        is_on = state_of(instance.job) not in OVER
        instance.per_second = found.per_second if is_on else None
        instance.seconds_left = found.seconds_left if is_on else None
        return super().to_representation(instance)


class BatchPredictions(ProjectAPIView):
    """Batch predictions of a project, newest first. POST begins one."""

    required_permissions: ClassVar = {"GET": Permission.JOB_READ, "POST": Permission.JOB_CREATE}
    queryset = BatchPrediction.objects.none()
    serializer_class = BatchPredictionOut

    @extend_schema(
        operation_id="batch_predictions_list",
        parameters=[
            OpenApiParameter("model", str, description="of this model only"),
            OpenApiParameter("endpoint", str, description="of this endpoint only"),
        ],
        responses=BatchPredictionOut(many=True),
    )
    def get(self, request: Request, project: str) -> Response:
        name = request.query_params.get("model", "")
        model = selectors.model_get(self.principal, self.project, name) if name else None
        endpoint = request.query_params.get("endpoint", "")
        rows = selectors.predictions_visible_to(self.principal, self.project, model, endpoint)
        page = self.paginate_queryset(rows) or []
        return self.get_paginated_response(_told(page))

    @extend_schema(
        operation_id="batch_predictions_create",
        request=BatchPredictionIn,
        responses={202: BatchPredictionOut},
    )
    def post(self, request: Request, project: str) -> Response:
        said = given(BatchPredictionIn, request)
        row = batch_create(principal=self.principal, project=self.project, said=said)
        return Response(_told([row])[0], status=status.HTTP_202_ACCEPTED)


class ApplyBatchPrediction(ProjectAPIView):
    """Begin a batch prediction as a document says, unless its name is there."""

    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}

    @extend_schema(
        operation_id="batch_predictions_apply",
        request=OpenApiTypes.OBJECT,
        parameters=[OpenApiParameter("plan", OpenApiTypes.INT, description="1: only say what")],
        responses={202: BatchPredictionOut, 200: OpenApiTypes.OBJECT},
    )
    def post(self, request: Request, project: str) -> Response:
        read = parse(request.data, kind="BatchPrediction", spec=_SPEC)
        require_project(read.project, self.project.slug)
        shape = BatchPredictionIn(data={**read.spec, "name": read.name})
        shape.is_valid(raise_exception=True)
        said = dict(shape.validated_data)
        plan = request.query_params.get("plan") == "1"
        found = batch_apply(principal=self.principal, project=self.project, said=said, plan=plan)
        if not plan and found.row is not None:
            return Response(_told([found.row])[0], status=status.HTTP_202_ACCEPTED)
        is_new = found.action == "create"
        answer = {
            "action": found.action,
            "name": read.name,
            "changes": [
                {"field": name, "from": None, "to": value}
                for name, value in (read.spec.items() if is_new else ())
            ],
            "sentences": [found.refusal] if found.refusal else [],
            "allowed": not found.refusal,
            "refusal": found.refusal,
        }
        return Response(answer)


class OneBatchPrediction(ProjectAPIView):
    """One batch prediction; its job has its log, its artifacts and its end."""

    required_permissions: ClassVar = {"GET": Permission.JOB_READ}
    serializer_class = BatchPredictionOut

    @extend_schema(operation_id="batch_predictions_show", responses=BatchPredictionOut)
    def get(self, request: Request, project: str, prediction: Any) -> Response:
        row = selectors.prediction_get(self.principal, self.project, prediction)
        return Response(_told([row])[0])


class BatchPredictionAgain(ProjectAPIView):
    """Begin the same once more, or only what it could not predict."""

    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}
    serializer_class = BatchPredictionOut

    @extend_schema(
        operation_id="batch_predictions_again",
        request=AgainIn,
        responses={202: BatchPredictionOut},
    )
    def post(self, request: Request, project: str, prediction: Any) -> Response:
        row = selectors.prediction_get(self.principal, self.project, prediction)
        said = given(AgainIn, request)
        made = batch_again(principal=self.principal, row=row, errors_only=said["errors_only"])
        return Response(_told([made])[0], status=status.HTTP_202_ACCEPTED)


def _told(rows: Any) -> Any:
    context = {"progress": selectors.progress_of(rows)}
    return BatchPredictionOut(rows, many=True, context=context).data


_SPEC: dict[str, type] = {
    str(name): object for name in BatchPredictionIn().fields if name != "name"
}
_HERE = "projects/<slug:project>/batch-predictions"
urlpatterns = [
    path(_HERE, BatchPredictions.as_view(), name="api-batch-predictions"),
    path(f"{_HERE}/apply", ApplyBatchPrediction.as_view(), name="api-batch-predictions-apply"),
    path(f"{_HERE}/<uuid:prediction>", OneBatchPrediction.as_view(), name="api-batch-prediction"),
    path(
        f"{_HERE}/<uuid:prediction>/again",
        BatchPredictionAgain.as_view(),
        name="api-batch-prediction-again",
    ),
]
