# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""/api/v1/projects and their kubeconfigs: translates HTTP to services and selectors."""

from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.views import NeverStored
from common.drf.serializers import StrictSerializer
from common.drf.views import ANY_TOKEN, check_if_match, with_etag
from common.paging import CursorPagination
from events import selectors as events
from projects import namespaces, selectors
from projects.access import Entry, Permission, permissions_for
from projects.api import serializers as io
from projects.api.base import PlatformAPIView, ProjectAPIView
from projects.choices import GrantKind, Role
from projects.models import Invitation, KubeGrant, Membership, Project
from projects.services import invitations, kube, life, members
from projects.services.life import SCOPE_CREATE
from runtime.protocol import Phase

_CONFIRM = OpenApiParameter("confirm", str, required=True, description="The project's slug.")


class OldestFirst(CursorPagination):
    ordering = "id"


class ByName(CursorPagination):
    ordering = ("name", "id")  # type: ignore[assignment]  # DRF takes a tuple too


class ProjectDetails(ProjectAPIView):
    """What several views answer with."""

    def answer(
        self, project: Project, *, status: int = 200, entry: Entry | None = None
    ) -> Response:
        given = entry or self.entry
        if not hasattr(project, "entered_role"):
            project.entered_role = given.role  # type: ignore[attr-defined]
        data = io.ProjectDetailSerializer(project, context={"entry": given}).data
        return with_etag(Response(data, status=status), project)


class ProjectsView(PlatformAPIView):
    """The projects one may see; making one."""

    required_platform: ClassVar = {"GET": "user", "POST": "user"}
    limited_tokens: ClassVar = {"GET": ANY_TOKEN, "POST": SCOPE_CREATE}
    serializer_class = io.ProjectSerializer
    pagination_class = ByName
    queryset = Project.objects.none()

    @extend_schema(
        parameters=[
            OpenApiParameter("search", str, description="Part of the name or slug."),
            OpenApiParameter("archived", bool),
        ],
        responses=io.ProjectSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        archived = request.query_params.get("archived", "")
        rows = selectors.projects_listed(
            self.principal,
            search=request.query_params.get("search", "")[:120].replace("\x00", ""),
            archived=None if not archived else archived.lower() in {"1", "true", "yes"},
        )
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(io.ProjectSerializer(page, many=True).data)

    @extend_schema(request=io.ProjectCreateSerializer, responses={201: io.ProjectDetailSerializer})
    def post(self, request: Request) -> Response:
        given = valid(io.ProjectCreateSerializer, request)
        project = life.project_create(principal=self.principal, **given)
        role = Role.OWNER
        granted = permissions_for(self.principal, project, role)
        project.entered_role = role  # type: ignore[attr-defined]
        data = io.ProjectDetailSerializer(
            project, context={"entry": Entry(project, role, granted)}
        ).data
        response = Response(
            data, status=201, headers={"Location": f"{request.path}/{project.slug}"}
        )
        return with_etag(response, project)


class ProjectView(ProjectDetails):
    required_permissions: ClassVar = {
        "GET": Permission.PROJECT_READ,
        "PATCH": Permission.PROJECT_UPDATE,
        "DELETE": Permission.PROJECT_DELETE,
    }

    @extend_schema(responses=io.ProjectDetailSerializer)
    def get(self, request: Request, project: str) -> Response:
        return self.answer(self.project)

    @extend_schema(request=io.ProjectUpdateSerializer, responses=io.ProjectDetailSerializer)
    @transaction.atomic
    def patch(self, request: Request, project: str) -> Response:
        given = valid(io.ProjectUpdateSerializer, request)
        check_if_match(request, life.lock(self.project))
        row = life.project_update(principal=self.principal, project=self.project, **given)
        return self.answer(row)

    @extend_schema(parameters=[_CONFIRM], responses={202: io.ProjectDetailSerializer})
    def delete(self, request: Request, project: str) -> Response:
        row = life.project_request_delete(
            principal=self.principal,
            project=self.project,
            confirm=request.query_params.get("confirm", ""),
        )
        return self.answer(row, status=202)


class ArchiveView(ProjectDetails):
    required_permissions: ClassVar = {"POST": Permission.PROJECT_ARCHIVE}

    @extend_schema(request=io.ArchiveSerializer, responses=io.ProjectDetailSerializer)
    def post(self, request: Request, project: str) -> Response:
        given = valid(io.ArchiveSerializer, request)
        row = life.project_archive(principal=self.principal, project=self.project, **given)
        return self.answer(row)


class UnarchiveView(ProjectDetails):
    required_permissions: ClassVar = {"POST": Permission.PROJECT_ARCHIVE}

    @extend_schema(request=None, responses=io.ProjectDetailSerializer)
    def post(self, request: Request, project: str) -> Response:
        row = life.project_unarchive(principal=self.principal, project=self.project)
        return self.answer(row)


class MembersView(ProjectAPIView):
    required_permissions: ClassVar = {
        "GET": Permission.MEMBER_READ,
        "POST": Permission.MEMBER_MANAGE,
    }
    serializer_class = io.MemberSerializer
    pagination_class = OldestFirst
    queryset = Membership.objects.none()

    @extend_schema(responses=io.MemberSerializer(many=True))
    def get(self, request: Request, project: str) -> Response:
        page = self.paginate_queryset(selectors.members_of(self.project))
        return self.get_paginated_response(io.MemberSerializer(page, many=True).data)

    @extend_schema(request=io.MemberAddSerializer, responses={201: io.MemberSerializer})
    def post(self, request: Request, project: str) -> Response:
        given = valid(io.MemberAddSerializer, request)
        row = members.member_add(
            principal=self.principal,
            project=self.project,
            user=selectors.user_to_add(given["username"]),
            role=Role(given["role"]),
        )
        return Response(io.MemberSerializer(row).data, status=201)


class MemberView(ProjectAPIView):
    """One member; DELETE of oneself is leaving, which every member may."""

    required_permissions: ClassVar = {
        "GET": Permission.MEMBER_READ,
        "PATCH": Permission.MEMBER_MANAGE,
        "DELETE": Permission.PROJECT_READ,  # the service demands member:manage for others
    }

    @extend_schema(responses=io.MemberSerializer)
    def get(self, request: Request, project: str, username: str) -> Response:
        user = selectors.member_user(self.project, username)
        row = selectors.members_of(self.project).get(user=user)
        return Response(io.MemberSerializer(row).data)

    @extend_schema(request=io.MemberRoleSerializer, responses=io.MemberSerializer)
    def patch(self, request: Request, project: str, username: str) -> Response:
        given = valid(io.MemberRoleSerializer, request)
        row = members.member_set_role(
            principal=self.principal,
            project=self.project,
            user=selectors.member_user(self.project, username),
            role=Role(given["role"]),
        )
        return Response(io.MemberSerializer(row).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, project: str, username: str) -> Response:
        if username == self.principal.user.username:
            members.member_leave(principal=self.principal, project=self.project)
        else:
            user = selectors.member_user(self.project, username)
            members.member_remove(principal=self.principal, project=self.project, user=user)
        return Response(status=204)


class InvitationsView(ProjectAPIView):
    required_permissions: ClassVar = {
        "GET": Permission.MEMBER_MANAGE,
        "POST": Permission.MEMBER_MANAGE,
    }
    serializer_class = io.InvitationSerializer
    queryset = Invitation.objects.none()

    @extend_schema(responses=io.InvitationSerializer(many=True))
    def get(self, request: Request, project: str) -> Response:
        page = self.paginate_queryset(selectors.invitations_open(self.project))
        return self.get_paginated_response(io.InvitationSerializer(page, many=True).data)

    @extend_schema(request=io.InvitationCreateSerializer, responses={201: io.InvitationSerializer})
    def post(self, request: Request, project: str) -> Response:
        given = valid(io.InvitationCreateSerializer, request)
        row = invitations.invitation_create(
            principal=self.principal,
            project=self.project,
            email=given["email"],
            role=Role(given["role"]),
        )
        return Response(io.InvitationSerializer(row).data, status=201)


class InvitationView(ProjectAPIView):
    required_permissions: ClassVar = {"DELETE": Permission.MEMBER_MANAGE}

    @extend_schema(responses={204: None})
    def delete(self, request: Request, project: str, uid: str) -> Response:
        row = selectors.invitation_get(self.project, uid)
        invitations.invitation_revoke(principal=self.principal, invitation=row)
        return Response(status=204)


class ProjectEventsView(ProjectAPIView):
    required_permissions: ClassVar = {"GET": Permission.EVENT_READ}
    serializer_class = io.EventSerializer
    queryset = events.nothing()

    @extend_schema(responses=io.EventSerializer(many=True))
    def get(self, request: Request, project: str) -> Response:
        page = self.paginate_queryset(events.of_project(self.project.uid))
        return self.get_paginated_response(io.EventSerializer(page, many=True).data)


def valid(serializer: type[StrictSerializer], request: Request) -> dict[str, Any]:
    """Return the checked input, or raise the 400 with its fields."""
    if not isinstance(request.data, dict):
        raise ValidationError({"non_field_errors": ["An object is expected."]})
    given = serializer(data=request.data)
    given.is_valid(raise_exception=True)
    return dict(given.validated_data)


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
        keys = life.project_set_clusters(
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
        grant = kube.grant_create(
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
        kube.grant_revoke(principal=self.principal, grant=grant)
        return Response(status=204)


class _OwnGrant(NeverStored, ProjectAPIView):
    required_permissions: ClassVar = {"POST": Permission.KUBE_USE}

    def grant(self, uid: UUID) -> KubeGrant:
        return selectors.kube_grant_get(self.principal, self.project, str(uid), manages=False)


class KubeconfigFileView(_OwnGrant):
    """The file. POST, since the variant with a token makes a new one each time."""

    @extend_schema(request=None, responses=KubeconfigSerializer)
    def post(self, request: Request, project: str, uid: UUID) -> Response:
        text = kube.file_of(
            principal=self.principal, grant=self.grant(uid), portal=settings.BERTH_PUBLIC_URL
        )
        return Response({"kubeconfig": text})


class KubeTokenView(_OwnGrant):
    """A token of a quarter of an hour, for the exec plugin. 409 ``preparing``: ask again."""

    @extend_schema(request=None, responses=KubeTokenSerializer)
    def post(self, request: Request, project: str, uid: UUID) -> Response:
        made = kube.token_issue(principal=self.principal, grant=self.grant(uid))
        at = datetime.fromtimestamp(made.expires_at, tz=UTC)
        return Response(KubeTokenSerializer({"token": made.token, "expires_at": at}).data)


app_name = "projects-api"
_ONE = "projects/<slug:project>"
urlpatterns = [
    path("projects", ProjectsView.as_view(), name="list"),
    path(_ONE, ProjectView.as_view(), name="detail"),
    path(f"{_ONE}/archive", ArchiveView.as_view(), name="archive"),
    path(f"{_ONE}/unarchive", UnarchiveView.as_view(), name="unarchive"),
    path(f"{_ONE}/members", MembersView.as_view(), name="members"),
    path(f"{_ONE}/members/<str:username>", MemberView.as_view(), name="member"),
    path(f"{_ONE}/invitations", InvitationsView.as_view(), name="invitations"),
    path(f"{_ONE}/invitations/<uuid:uid>", InvitationView.as_view(), name="invitation"),
    path(f"{_ONE}/clusters", ProjectClustersView.as_view(), name="clusters"),
    path(f"{_ONE}/places", PlacesView.as_view(), name="places"),
    path(f"{_ONE}/kubeconfigs", KubeconfigsView.as_view(), name="kubeconfigs"),
    path(f"{_ONE}/kubeconfigs/<uuid:uid>", KubeconfigView.as_view(), name="kubeconfig"),
    path(
        f"{_ONE}/kubeconfigs/<uuid:uid>/file", KubeconfigFileView.as_view(), name="kubeconfig-file"
    ),
    path(f"{_ONE}/kubeconfigs/<uuid:uid>/token", KubeTokenView.as_view(), name="kube-token"),
    path(f"{_ONE}/events", ProjectEventsView.as_view(), name="events"),
]
