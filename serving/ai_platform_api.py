# ruff: noqa: ARG002, N815 - what is in the URL; words as AI Platform has them
"""Models and versions in the shapes of AI Platform Prediction, below ``…/ai-platform/models``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.db import transaction
from django.urls import path
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.response import Response

from clusters.models import Flavor
from common.drf.serializers import StrictSerializer, given
from jobs.ai_platform.api import TrainingLineOut
from jobs.ai_platform.documents import refusal
from jobs.ai_platform.machines import Tables
from projects.access import Permission, require
from projects.api.base import REASON, reason_in
from serving import selectors
from serving.ai_platform import FRAMEWORKS, Translation, translate
from serving.choices import Files
from serving.kind import ENDPOINT
from serving.models import Model, ModelVersion
from serving.models_api import ModelView
from serving.services import models, versions
from work.api.views import PLAN
from work.selectors import visible_to
from work.services import workload_create

if TYPE_CHECKING:
    from rest_framework.request import Request

_WORDS = {str(ours): theirs for theirs, ours in FRAMEWORKS.items()}
_STATES = {Files.COMING: "CREATING", Files.THERE: "READY", Files.FAILED: "FAILED"}


class NamedIn(StrictSerializer):
    name = serializers.CharField(max_length=50)
    description = serializers.CharField(required=False, default="", allow_blank=True)


class PredictionVersionIn(StrictSerializer):
    name = serializers.CharField(max_length=50)
    deploymentUri = serializers.CharField(required=False, max_length=1024)
    framework = serializers.CharField(required=False, max_length=32)
    runtimeVersion = serializers.CharField(required=False, max_length=32)
    pythonVersion = serializers.CharField(required=False, max_length=32)
    machineType = serializers.CharField(required=False, max_length=64)
    acceleratorConfig = serializers.DictField(required=False)
    manualScaling = serializers.DictField(required=False)
    autoScaling = serializers.DictField(required=False)
    description = serializers.CharField(required=False, max_length=500)
    credential = serializers.CharField(required=False, help_text="that opens the bucket")
    unsupported = serializers.DictField(
        required=False, help_text="fields that are known there and not here; each is refused"
    )


class PredictionVersionOut(serializers.Serializer[Any]):
    """What is not known is left out."""

    name = serializers.CharField()
    deploymentUri = serializers.CharField()
    framework = serializers.CharField()
    createTime = serializers.DateTimeField()
    state = serializers.ChoiceField(sorted(_STATES.values()))
    errorMessage = serializers.CharField(required=False)
    isDefault = serializers.BooleanField()
    endpoint = serializers.CharField(required=False, help_text="that serves it")
    message = serializers.CharField(required=False, help_text="why none was made for it")


class PredictionModelOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    defaultVersion = PredictionVersionOut(required=False)


class PredictionPlanOut(serializers.Serializer[Any]):
    allowed = serializers.BooleanField()
    refusal = serializers.CharField(allow_blank=True)
    # A field named like one of its base class.
    fields = TrainingLineOut(many=True)  # type: ignore[assignment]


class _View(ModelView):
    def told(self, row: ModelVersion, default: ModelVersion | None) -> dict[str, Any]:
        found = {
            "name": f"{row.model.name}/{row.name}",
            "deploymentUri": row.origin,
            "framework": _WORDS.get(row.framework, row.framework.upper()),
            "createTime": row.created_at,
            "state": _STATES[Files(row.files)],
            "errorMessage": row.problem or None,
            "isDefault": default is not None and default.pk == row.pk,
            "endpoint": next((one.name for one in getattr(row, "served_by", ())), None),
        }
        return {name: value for name, value in found.items() if value is not None}

    def told_model(self, row: Model) -> dict[str, Any]:
        found = {"name": row.name, "description": row.description}
        default = selectors.default_of(selectors.versions_of(self.principal, row))
        return found | ({"defaultVersion": self.told(default, default)} if default else {})


class PredictionModels(_View):
    """Models of a project. POST registers one."""

    queryset = Model.objects.none()
    serializer_class = PredictionModelOut

    @extend_schema(operation_id="ai_platform_models_list", responses=PredictionModelOut(many=True))
    def get(self, request: Request, project: str) -> Response:
        rows = selectors.models_visible_to(self.principal, self.project)
        page = self.paginate_queryset(rows) or []
        told = [{"name": row.name, "description": row.description} for row in page]
        return self.get_paginated_response(told)

    @extend_schema(
        operation_id="ai_platform_models_create",
        request=NamedIn,
        responses={201: PredictionModelOut},
    )
    def post(self, request: Request, project: str) -> Response:
        said = given(NamedIn, request)
        row = models.model_create(principal=self.principal, project=self.project, **said)
        return Response(self.told_model(row), status=status.HTTP_201_CREATED)


class PredictionModel(_View):
    """One model."""

    @extend_schema(operation_id="ai_platform_models_describe", responses=PredictionModelOut)
    def get(self, request: Request, project: str, model: str) -> Response:
        return Response(self.told_model(self.model(model)))

    @extend_schema(
        operation_id="ai_platform_models_delete", parameters=[REASON], responses={204: None}
    )
    def delete(self, request: Request, project: str, model: str) -> Response:
        row, said = self.model(model), reason_in(request)
        models.model_delete(principal=self.principal, row=row, said=said)
        return Response(status=status.HTTP_204_NO_CONTENT)


class PredictionVersions(_View):
    """Versions of a model. POST registers one, and deploys it where its model has no endpoint."""

    queryset = ModelVersion.objects.none()
    serializer_class = PredictionVersionOut

    @extend_schema(
        operation_id="ai_platform_versions_list", responses=PredictionVersionOut(many=True)
    )
    def get(self, request: Request, project: str, model: str) -> Response:
        rows = selectors.versions_of(self.principal, self.model(model))
        default, page = selectors.default_of(rows), self.paginate_queryset(rows) or []
        return self.get_paginated_response([self.told(row, default) for row in page])

    @extend_schema(
        operation_id="ai_platform_versions_create",
        request=PredictionVersionIn,
        parameters=[PLAN],
        responses={202: PredictionVersionOut, 200: PredictionPlanOut},
    )
    def post(self, request: Request, project: str, model: str) -> Response:
        row, asked = self.model(model), given(PredictionVersionIn, request)
        asked |= asked.pop("unsupported", {})
        translation = _translated(row, asked)
        if request.query_params.get("plan", "") in {"1", "true"}:
            sentence = " ".join(translation.refused.values())
            lines = TrainingLineOut(translation.lines, many=True).data
            return Response({"allowed": not sentence, "refusal": sentence, "fields": lines})
        if translation.refused:
            raise refusal(translation.refused)
        made, note = _carry_out(self, row, translation)
        version = self.version(row.name, made.name)
        default = selectors.default_of(selectors.versions_of(self.principal, row))
        told = self.told(version, default) | ({"message": note} if note else {})
        return Response(told, status=status.HTTP_202_ACCEPTED)


class PredictionVersion(_View):
    """One version of a model."""

    @extend_schema(operation_id="ai_platform_versions_describe", responses=PredictionVersionOut)
    def get(self, request: Request, project: str, model: str, version: str) -> Response:
        row = self.version(model, version)
        default = selectors.default_of(selectors.versions_of(self.principal, row.model))
        return Response(self.told(row, default))

    @extend_schema(
        operation_id="ai_platform_versions_delete", parameters=[REASON], responses={204: None}
    )
    def delete(self, request: Request, project: str, model: str, version: str) -> Response:
        row, said = self.version(model, version), reason_in(request)
        versions.version_delete(principal=self.principal, row=row, said=said)
        return Response(status=status.HTTP_204_NO_CONTENT)


class SetDefault(_View):
    """Make a version the one that is meant where none is named."""

    required_permissions: ClassVar = {"POST": Permission.MODEL_MANAGE}

    @extend_schema(
        operation_id="ai_platform_versions_set_default",
        request=None,
        responses={200: PredictionVersionOut},
    )
    def post(self, request: Request, project: str, model: str, version: str) -> Response:
        row = self.version(model, version)
        versions.version_default(principal=self.principal, row=row)
        row = self.version(model, version)
        return Response(self.told(row, row))


def _translated(row: Model, asked: dict[str, Any]) -> Translation:
    kinds = dict(Flavor.objects.order_by("position", "name").values_list("name", "label"))
    tables = Tables.of(settings.BERTH_AI_PLATFORM)
    return translate(asked, model=row.name, tables=tables, kinds=kinds)


@transaction.atomic
def _carry_out(view: _View, row: Model, made: Translation) -> tuple[ModelVersion, str]:
    """Register it, and deploy it where nothing is called as its model. Both, or none."""
    who = view.principal
    require(who, view.project, Permission.ENDPOINT_CREATE)
    version = versions.version_create(principal=who, model=row, said=made.version)
    there = visible_to(who, ENDPOINT, view.project).filter(name=row.name).first()
    if there is not None:
        said = _("The endpoint %(name)s serves %(there)s already. It serves this one after: %(do)s")
        do = f"berth endpoint edit {there.name} --model {version}"
        return version, said % {"name": there.name, "there": there.model or "-", "do": do}
    workload_create(principal=who, project=view.project, kind=ENDPOINT, said=made.endpoint)
    return version, ""


_MODEL = "projects/<slug:project>/ai-platform/models/<slug:model>"
_VERSION = f"{_MODEL}/versions/<slug:version>"
urlpatterns = [
    path(
        "projects/<slug:project>/ai-platform/models",
        PredictionModels.as_view(),
        name="api-prediction-models",
    ),
    path(_MODEL, PredictionModel.as_view(), name="api-prediction-model"),
    path(f"{_MODEL}/versions", PredictionVersions.as_view(), name="api-prediction-versions"),
    path(_VERSION, PredictionVersion.as_view(), name="api-prediction-version"),
    path(
        f"{_VERSION}/set-default", SetDefault.as_view(), name="api-prediction-version-set-default"
    ),
]
