# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The API of models and their versions, which are named in their addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.response import Response

from common.drf.serializers import StrictSerializer, given
from projects.access import Permission
from projects.api.base import REASON, ProjectAPIView, reason_in
from serving import mlflow, selectors
from serving.choices import Files, Framework, Source, Stage
from serving.models import Model, ModelVersion
from serving.services import models, reading, versions

if TYPE_CHECKING:
    from rest_framework.request import Request

READ_AND_MANAGE = {
    "GET": Permission.MODEL_READ,
    "POST": Permission.MODEL_MANAGE,
    "PATCH": Permission.MODEL_MANAGE,
    "DELETE": Permission.MODEL_MANAGE,
}


class ModelOut(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="uid")
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    versions = serializers.IntegerField(source="version_count", help_text="how many")
    newest = serializers.CharField(allow_null=True, help_text="its newest version")
    created_by = serializers.CharField(source="created_by.username", default=None, allow_null=True)
    created_at = serializers.DateTimeField()


class ModelIn(StrictSerializer):
    name = serializers.CharField(max_length=50, help_text="small letters, digits and hyphens")
    description = serializers.CharField(required=False, default="", allow_blank=True)


class ModelEditIn(StrictSerializer):
    description = serializers.CharField(allow_blank=True)


class VersionOut(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="uid")
    model = serializers.CharField(source="model.name")
    name = serializers.CharField()
    framework = serializers.CharField(
        allow_blank=True, help_text="empty: its files were not looked at yet"
    )
    stage = serializers.ChoiceField(Stage.choices)
    # A field named like one of its base class.
    source = serializers.ChoiceField(Source.choices)  # type: ignore[assignment]
    origin = serializers.CharField(help_text="as it was said")
    volume = serializers.CharField(source="volume.name", default=None, allow_null=True)
    volume_id = serializers.UUIDField(source="volume.uid", default=None, allow_null=True)
    folder = serializers.CharField(allow_blank=True, help_text="in the volume")
    cluster = serializers.CharField(source="volume.cluster_key", default=None, allow_null=True)
    files = serializers.ChoiceField(Files.choices)
    message = serializers.CharField(
        source="problem", allow_blank=True, help_text="what is wrong with its files"
    )
    digest = serializers.CharField(
        allow_blank=True, help_text="sha256sum of all files; empty: nobody read them"
    )
    made_with = serializers.CharField(allow_blank=True, help_text="the release that wrote it")
    read = serializers.CharField(source="reading", help_text="no, running, done or failed")
    read_message = serializers.CharField(
        source="read_problem", allow_blank=True, help_text="why the model can't be opened"
    )
    size_bytes = serializers.IntegerField(allow_null=True)
    signature = serializers.DictField()
    metrics = serializers.DictField(child=serializers.FloatField())
    registry = serializers.DictField(
        help_text="of one from MLflow: model, version, run, url; empty for others"
    )
    endpoints = serializers.SerializerMethodField(help_text="names of those that serve it")
    created_by = serializers.CharField(source="created_by.username", default=None, allow_null=True)
    created_at = serializers.DateTimeField()

    def get_endpoints(self, row: Any) -> list[str]:
        return [endpoint.name for endpoint in row.served_by]


class VersionIn(StrictSerializer):
    name = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=50,
        help_text="v and the next number when not said",
    )
    origin = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=1024,
        help_text="volume:NAME/FOLDER, run:JOB/NUMBER/FOLDER, gs://…, s3://…, "
        "mlflow:SERVER/MODEL/VERSION (a number, latest or @ALIAS), or upload: "
        "(then its files are sent to the folder that the answer names, and it is checked)",
    )
    framework = serializers.ChoiceField(
        Framework.choices,
        required=False,
        default="",
        allow_blank=True,
        help_text="found by the files' names",
    )
    metrics = serializers.DictField(required=False, help_text="name → number")
    signature = serializers.DictField(required=False, help_text="what goes in and comes out")
    credential = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        help_text="that opens the bucket; none: it is public",
    )
    cluster = serializers.CharField(
        required=False, default="", allow_blank=True, help_text="where its files are kept"
    )
    read = serializers.BooleanField(
        required=False,
        default=True,
        help_text="once they are there a job reads the files, up to 2 GiB, if queue, limits and "
        "budget have room at once; on a cluster it may still wait for a free node",
    )


class VersionEditIn(StrictSerializer):
    stage = serializers.ChoiceField(Stage.choices, required=False)
    metrics = serializers.DictField(required=False, help_text="in place of what was known")


class RegisteredOut(serializers.Serializer[Any]):
    """A model as MLflow tells it."""

    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    newest = serializers.IntegerField(help_text="its newest version; 0: it has none")
    aliases = serializers.DictField(child=serializers.CharField(), help_text="alias → version")


class RegisteredVersionOut(serializers.Serializer[Any]):
    version = serializers.CharField()
    status = serializers.CharField(allow_blank=True)
    description = serializers.CharField(allow_blank=True)
    run = serializers.CharField(allow_blank=True)
    created = serializers.IntegerField(allow_null=True, help_text="milliseconds since 1970")


class RegistryModelsOut(serializers.Serializer[Any]):
    models = RegisteredOut(many=True)
    token = serializers.CharField(allow_blank=True, help_text="of the next page; empty: the last")


class RegistryVersionsOut(serializers.Serializer[Any]):
    versions = RegisteredVersionOut(many=True)
    token = serializers.CharField(allow_blank=True, help_text="of the next page; empty: the last")


class RegistryIn(StrictSerializer):
    """What is asked of an MLflow server, which a credential of the project names."""

    server = serializers.CharField(
        required=False,
        default="",
        max_length=80,
        allow_blank=True,
        help_text="name or id of the credential; the only one when not said",
    )
    model = serializers.CharField(required=False, default="", max_length=256)
    q = serializers.CharField(required=False, default="", max_length=80, allow_blank=True)
    token = serializers.CharField(required=False, default="", max_length=1000, allow_blank=True)


class CheckIn(StrictSerializer):
    credential = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        help_text="another one than before, to copy it once more",
    )


class ModelView(ProjectAPIView):
    """The base of what is about models."""

    required_permissions: ClassVar = READ_AND_MANAGE

    def model(self, name: str) -> Model:
        return selectors.model_get(self.principal, self.project, name)

    def version(self, model: str, name: str) -> ModelVersion:
        return selectors.version_get(self.principal, self.model(model), name)


class Models(ModelView):
    """Models of a project, by name. POST registers one."""

    queryset = Model.objects.none()
    serializer_class = ModelOut

    @extend_schema(operation_id="models_list", responses=ModelOut(many=True))
    def get(self, request: Request, project: str) -> Response:
        rows = selectors.models_visible_to(self.principal, self.project)
        page = self.paginate_queryset(rows) or []
        return self.get_paginated_response(ModelOut(page, many=True).data)

    @extend_schema(operation_id="models_create", request=ModelIn, responses={201: ModelOut})
    def post(self, request: Request, project: str) -> Response:
        said = given(ModelIn, request)
        row = models.model_create(principal=self.principal, project=self.project, **said)
        return Response(ModelOut(self.model(row.name)).data, status=status.HTTP_201_CREATED)


class OneModel(ModelView):
    """One model."""

    serializer_class = ModelOut

    @extend_schema(operation_id="models_show", responses=ModelOut)
    def get(self, request: Request, project: str, model: str) -> Response:
        return Response(ModelOut(self.model(model)).data)

    @extend_schema(operation_id="models_edit", request=ModelEditIn, responses=ModelOut)
    def patch(self, request: Request, project: str, model: str) -> Response:
        row, said = self.model(model), given(ModelEditIn, request)
        return Response(
            ModelOut(models.model_describe(principal=self.principal, row=row, **said)).data
        )

    @extend_schema(operation_id="models_delete", parameters=[REASON], responses={204: None})
    def delete(self, request: Request, project: str, model: str) -> Response:
        row, said = self.model(model), reason_in(request)
        models.model_delete(principal=self.principal, row=row, said=said)
        return Response(status=status.HTTP_204_NO_CONTENT)


class VersionView(ModelView):
    """The base of what is about versions."""

    serializer_class = VersionOut

    def told(self, row: ModelVersion, code: int = status.HTTP_200_OK) -> Response:
        row = selectors.version_get(self.principal, row.model, row.name)
        return Response(VersionOut(row).data, status=code)


class Versions(VersionView):
    """Versions of a model, newest first. POST adds one; its files are looked at soon after."""

    queryset = ModelVersion.objects.none()

    @extend_schema(operation_id="model_versions_list", responses=VersionOut(many=True))
    def get(self, request: Request, project: str, model: str) -> Response:
        rows = selectors.versions_of(self.principal, self.model(model))
        page = self.paginate_queryset(rows) or []
        return self.get_paginated_response(VersionOut(page, many=True).data)

    @extend_schema(
        operation_id="model_versions_create", request=VersionIn, responses={202: VersionOut}
    )
    def post(self, request: Request, project: str, model: str) -> Response:
        row = self.model(model)
        said = given(VersionIn, request)
        made = versions.version_create(principal=self.principal, model=row, said=said)
        return self.told(made, status.HTTP_202_ACCEPTED)


class OneVersion(VersionView):
    """One version of a model."""

    @extend_schema(operation_id="model_versions_show", responses=VersionOut)
    def get(self, request: Request, project: str, model: str, version: str) -> Response:
        return self.told(self.version(model, version))

    @extend_schema(operation_id="model_versions_edit", request=VersionEditIn, responses=VersionOut)
    def patch(self, request: Request, project: str, model: str, version: str) -> Response:
        row = self.version(model, version)
        said = given(VersionEditIn, request)
        if "stage" in said:
            row = versions.version_stage(principal=self.principal, row=row, stage=said["stage"])
        if "metrics" in said:
            metrics = said["metrics"]
            row = versions.version_metrics(principal=self.principal, row=row, metrics=metrics)
        return self.told(row)

    @extend_schema(operation_id="model_versions_delete", parameters=[REASON], responses={204: None})
    def delete(self, request: Request, project: str, model: str, version: str) -> Response:
        row = self.version(model, version)
        versions.version_delete(principal=self.principal, row=row, said=reason_in(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class CheckVersion(VersionView):
    """Look at the files again: they were uploaded, or mended; copy what could not be copied."""

    required_permissions: ClassVar = {"POST": Permission.MODEL_MANAGE}

    @extend_schema(
        operation_id="model_versions_check", request=CheckIn, responses={202: VersionOut}
    )
    def post(self, request: Request, project: str, model: str, version: str) -> Response:
        row = self.version(model, version)
        said = given(CheckIn, request)
        row = versions.version_check(principal=self.principal, row=row, **said)
        return self.told(row, status.HTTP_202_ACCEPTED)


class ReadVersion(VersionView):
    """Read the files in a job of the project: their digest, and what the model takes and gives."""

    required_permissions: ClassVar = {"POST": Permission.MODEL_MANAGE}

    @extend_schema(operation_id="model_versions_read", request=None, responses={202: VersionOut})
    def post(self, request: Request, project: str, model: str, version: str) -> Response:
        row = reading.version_read(principal=self.principal, row=self.version(model, version))
        return self.told(row, status.HTTP_202_ACCEPTED)


class DefaultVersion(VersionView):
    """Make a version the one that is meant where only its model is named."""

    required_permissions: ClassVar = {"POST": Permission.MODEL_MANAGE}

    @extend_schema(operation_id="model_versions_default", request=None, responses={200: VersionOut})
    def post(self, request: Request, project: str, model: str, version: str) -> Response:
        row = self.version(model, version)
        return self.told(versions.version_default(principal=self.principal, row=row))


class RegistryModels(ProjectAPIView):
    """Models of an MLflow server, by name; their versions are registered by ``mlflow:…``."""

    required_permissions: ClassVar = {"GET": Permission.MODEL_MANAGE}
    serializer_class = RegistryModelsOut

    @extend_schema(
        operation_id="registry_models_list", parameters=[RegistryIn], responses=RegistryModelsOut
    )
    def get(self, request: Request, project: str) -> Response:
        said = _asked_of(request)
        server = mlflow.server_or_only(self.principal, self.project, said["server"])
        if server is None:
            return Response({"models": [], "token": ""})
        return Response(mlflow.models(server, said["q"], said["token"]))


class RegistryVersions(ProjectAPIView):
    """Versions of a model of an MLflow server, the newest first."""

    required_permissions: ClassVar = {"GET": Permission.MODEL_MANAGE}
    serializer_class = RegistryVersionsOut

    @extend_schema(
        operation_id="registry_versions_list",
        parameters=[RegistryIn],
        responses=RegistryVersionsOut,
    )
    def get(self, request: Request, project: str) -> Response:
        said = _asked_of(request)
        server = mlflow.server_or_only(self.principal, self.project, said["server"])
        if server is None or not said["model"]:
            return Response({"versions": [], "token": ""})
        return Response(mlflow.versions(server, said["model"], said["token"]))


def _asked_of(request: Request) -> dict[str, Any]:
    said = RegistryIn(data=request.query_params.dict())
    said.is_valid(raise_exception=True)
    return dict(said.validated_data)


_MODEL = "projects/<slug:project>/models/<slug:model>"
_VERSION = f"{_MODEL}/versions/<slug:version>"
_MLFLOW = "projects/<slug:project>/mlflow"
urlpatterns = [
    path(f"{_MLFLOW}/models", RegistryModels.as_view(), name="api-mlflow-models"),
    path(f"{_MLFLOW}/versions", RegistryVersions.as_view(), name="api-mlflow-versions"),
    path("projects/<slug:project>/models", Models.as_view(), name="api-models"),
    path(_MODEL, OneModel.as_view(), name="api-model"),
    path(f"{_MODEL}/versions", Versions.as_view(), name="api-model-versions"),
    path(_VERSION, OneVersion.as_view(), name="api-model-version"),
    path(f"{_VERSION}/check", CheckVersion.as_view(), name="api-model-version-check"),
    path(f"{_VERSION}/read", ReadVersion.as_view(), name="api-model-version-read"),
    path(f"{_VERSION}/default", DefaultVersion.as_view(), name="api-model-version-default"),
]
