# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""/api/v1/projects/<slug>/kubeconfigs: who may use kubectl, and what kubectl needs."""

from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.views import NeverStored
from common.drf.serializers import StrictSerializer
from projects import namespaces, selectors, services
from projects.access import Permission
from projects.api.base import ProjectAPIView
from projects.api.views import valid
from projects.choices import GrantKind
from projects.models import KubeGrant
from runtime.protocol import Phase


class KubeGrantSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="uid")
    cluster = serializers.CharField(source="place.cluster_key")
    namespace = serializers.CharField(source="place.namespace")
    project = serializers.CharField(source="place.project.slug")
    kind = serializers.ChoiceField(choices=GrantKind.choices)
    name = serializers.CharField()
    user = serializers.CharField(source="user.username")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True)


class KubeGrantCreateSerializer(StrictSerializer):
    cluster = serializers.CharField(max_length=63)
    kind = serializers.ChoiceField(
        choices=GrantKind.choices, required=False, default=GrantKind.EXEC
    )
    name = serializers.CharField(max_length=80, required=False, allow_blank=True)
    hours = serializers.IntegerField(required=False, help_text="Of kind token: 1 to 24.")


class KubeconfigSerializer(serializers.Serializer[Any]):
    kubeconfig = serializers.CharField()


class KubeTokenSerializer(serializers.Serializer[Any]):
    token = serializers.CharField()
    expires_at = serializers.DateTimeField()


class PlaceSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    name = serializers.CharField()
    namespace = serializers.CharField()
    phase = serializers.ChoiceField(
        [phase.value for phase in Phase],
        allow_blank=True,
        help_text="Empty: made with the first launch or kubeconfig.",
    )


class PlacesView(ProjectAPIView):
    """The Kubernetes clusters that the project may use, and its namespace there."""

    required_permissions: ClassVar = {"GET": Permission.PROJECT_READ}
    serializer_class = PlaceSerializer
    pagination_class = None

    @extend_schema(responses=PlaceSerializer(many=True))
    def get(self, request: Request, project: str) -> Response:
        return Response(PlaceSerializer(namespaces.places_listed(self.project), many=True).data)


class ClustersSerializer(StrictSerializer):
    clusters = serializers.ListField(
        child=serializers.CharField(max_length=63),
        max_length=200,
        help_text="Keys; none means every cluster.",
    )


class ProjectClustersView(ProjectAPIView):
    """Which clusters the project is limited to. Operators change it."""

    required_permissions: ClassVar = {
        "GET": Permission.PROJECT_READ,
        "PUT": Permission.PROJECT_READ,
    }
    serializer_class = ClustersSerializer

    @extend_schema(responses=ClustersSerializer)
    def get(self, request: Request, project: str) -> Response:
        return Response({"clusters": namespaces.clusters_of(self.project.uid)})

    @extend_schema(request=ClustersSerializer, responses=ClustersSerializer)
    def put(self, request: Request, project: str) -> Response:
        keys = services.project_set_clusters(
            principal=self.principal,
            project=self.project,
            keys=valid(ClustersSerializer, request)["clusters"],
        )
        return Response({"clusters": keys})


class KubeconfigsView(ProjectAPIView):
    required_permissions: ClassVar = {"GET": Permission.KUBE_USE, "POST": Permission.KUBE_USE}
    serializer_class = KubeGrantSerializer
    queryset = KubeGrant.objects.none()

    @extend_schema(responses=KubeGrantSerializer(many=True))
    def get(self, request: Request, project: str) -> Response:
        page = self.paginate_queryset(selectors.kube_grants_of(self.principal, self.project))
        return self.get_paginated_response(KubeGrantSerializer(page, many=True).data)

    @extend_schema(request=KubeGrantCreateSerializer, responses={201: KubeGrantSerializer})
    def post(self, request: Request, project: str) -> Response:
        given = valid(KubeGrantCreateSerializer, request)
        grant = services.grant_create(
            principal=self.principal,
            project=self.project,
            cluster_key=given.pop("cluster"),
            **given,
        )
        return Response(KubeGrantSerializer(grant).data, status=201)


class KubeconfigView(ProjectAPIView):
    required_permissions: ClassVar = {"DELETE": Permission.PROJECT_READ}

    @extend_schema(responses={204: None})
    def delete(self, request: Request, project: str, uid: UUID) -> Response:
        grant = selectors.kube_grant_get(
            self.principal, self.project, str(uid), manages=self.can(Permission.MEMBER_MANAGE)
        )
        services.grant_revoke(principal=self.principal, grant=grant)
        return Response(status=204)


class _OwnGrant(NeverStored, ProjectAPIView):
    required_permissions: ClassVar = {"POST": Permission.KUBE_USE}

    def grant(self, uid: UUID) -> KubeGrant:
        return selectors.kube_grant_get(self.principal, self.project, str(uid), manages=False)


class KubeconfigFileView(_OwnGrant):
    """The file. POST, since the variant with a token makes a new one each time."""

    @extend_schema(request=None, responses=KubeconfigSerializer)
    def post(self, request: Request, project: str, uid: UUID) -> Response:
        text = services.file_of(
            principal=self.principal, grant=self.grant(uid), portal=settings.BERTH_PUBLIC_URL
        )
        return Response({"kubeconfig": text})


class KubeTokenView(_OwnGrant):
    """A token of a quarter of an hour, for the exec plugin. 409 ``preparing``: ask again."""

    @extend_schema(request=None, responses=KubeTokenSerializer)
    def post(self, request: Request, project: str, uid: UUID) -> Response:
        made = services.token_issue(principal=self.principal, grant=self.grant(uid))
        at = datetime.fromtimestamp(made.expires_at, tz=UTC)
        return Response(KubeTokenSerializer({"token": made.token, "expires_at": at}).data)
