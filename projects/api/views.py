# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""/api/v1/projects: translates HTTP to services and selectors, nothing more."""

from typing import Any, ClassVar

from django.db import transaction
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.etag import check_if_match, with_etag
from common.drf.pagination import CursorPagination
from common.drf.serializers import StrictSerializer
from common.drf.viewsets import ANY_TOKEN
from events import selectors as events
from projects import selectors, services
from projects.access import Entry, Permission, permissions_for
from projects.api import serializers as io
from projects.api.base import PlatformAPIView, ProjectAPIView
from projects.choices import Role
from projects.models import Invitation, Membership, Project
from projects.services.life import SCOPE_CREATE

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
        project = services.project_create(principal=self.principal, **given)
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
        check_if_match(request, Project.objects.select_for_update().get(pk=self.project.pk))
        row = services.project_update(principal=self.principal, project=self.project, **given)
        return self.answer(row)

    @extend_schema(parameters=[_CONFIRM], responses={202: io.ProjectDetailSerializer})
    def delete(self, request: Request, project: str) -> Response:
        row = services.project_request_delete(
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
        row = services.project_archive(principal=self.principal, project=self.project, **given)
        return self.answer(row)


class UnarchiveView(ProjectDetails):
    required_permissions: ClassVar = {"POST": Permission.PROJECT_ARCHIVE}

    @extend_schema(request=None, responses=io.ProjectDetailSerializer)
    def post(self, request: Request, project: str) -> Response:
        row = services.project_unarchive(principal=self.principal, project=self.project)
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
        row = services.member_add(
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
        row = services.member_set_role(
            principal=self.principal,
            project=self.project,
            user=selectors.member_user(self.project, username),
            role=Role(given["role"]),
        )
        return Response(io.MemberSerializer(row).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, project: str, username: str) -> Response:
        if username == self.principal.user.username:
            services.member_leave(principal=self.principal, project=self.project)
        else:
            user = selectors.member_user(self.project, username)
            services.member_remove(principal=self.principal, project=self.project, user=user)
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
        row = services.invitation_create(
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
        services.invitation_revoke(principal=self.principal, invitation=row)
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
