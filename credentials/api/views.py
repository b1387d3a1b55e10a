# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The API of credentials: secrets go in, and no answer ever holds one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.serializers import StrictSerializer
from credentials import selectors, services
from credentials.models import Credential
from credentials.probe import credential_test
from projects.access import Permission
from projects.api.base import ProjectAPIView

CREDENTIAL_READ, CREDENTIAL_MANAGE = Permission.CREDENTIAL_READ, Permission.CREDENTIAL_MANAGE


class CredentialOut(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    kind = serializers.CharField()
    name = serializers.CharField()
    host = serializers.CharField()
    username = serializers.CharField()
    usable_by = serializers.CharField()
    stored_by = serializers.CharField(allow_null=True)
    version = serializers.IntegerField()
    expires_at = serializers.DateTimeField(allow_null=True)
    rotated_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    last_used_for = serializers.CharField()
    tested_at = serializers.DateTimeField(allow_null=True)
    test_ok = serializers.BooleanField(allow_null=True)
    test_message = serializers.CharField()
    created_at = serializers.DateTimeField()


class _Login(StrictSerializer):
    username = serializers.CharField(max_length=services.USER_MAX)
    password = serializers.CharField(
        max_length=services.SECRET_MAX, write_only=True, style={"input_type": "password"}
    )
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


class RegistryIn(_Login):
    kind = serializers.ChoiceField(choices=["registry"], default="registry")
    name = serializers.CharField(max_length=services.NAME_MAX)
    host = serializers.CharField(max_length=255)


class RotateIn(_Login):
    """The user name may stay away: then it is kept."""

    username = serializers.CharField(max_length=services.USER_MAX, required=False)


class VerdictOut(serializers.Serializer[Any]):
    ok = serializers.BooleanField()
    message = serializers.CharField()


class _View(ProjectAPIView):
    serializer_class = CredentialOut

    def row(self, uid: UUID) -> Credential:
        return selectors.credential_get(self.principal, uid, self.project)


class CredentialList(_View):
    """The credentials of a project."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": CREDENTIAL_READ,
        "POST": CREDENTIAL_MANAGE,
    }

    @extend_schema(responses=CredentialOut(many=True))
    def get(self, request: Request, project: str) -> Response:
        rows = selectors.credentials_visible_to(self.principal, self.project).order_by("-id")
        page = self.paginate_queryset(rows)
        return self.get_paginated_response([_out(row) for row in page or []])

    @extend_schema(request=RegistryIn, responses={201: CredentialOut})
    def post(self, request: Request, project: str) -> Response:
        given = RegistryIn(data=request.data)
        given.is_valid(raise_exception=True)
        said = given.validated_data
        row = services.registry_add(
            principal=self.principal,
            project=self.project,
            name=said["name"],
            host=said["host"],
            login=services.Login(said["username"], said["password"]),
            expires_at=said.get("expires_at"),
        )
        return Response(_out(row), status=status.HTTP_201_CREATED)


class CredentialDetail(_View):
    """One credential."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": CREDENTIAL_READ,
        "DELETE": CREDENTIAL_MANAGE,
    }

    @extend_schema(responses=CredentialOut)
    def get(self, request: Request, project: str, credential: UUID) -> Response:
        return Response(_out(self.row(credential)))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, project: str, credential: UUID) -> Response:
        row = self.row(credential)
        services.credential_delete(principal=self.principal, credential=row, confirm=row.name)
        return Response(status=status.HTTP_204_NO_CONTENT)


class Rotate(_View):
    """Replace the secret; what starts from now on uses the new one."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": CREDENTIAL_MANAGE}

    @extend_schema(request=RotateIn, responses=CredentialOut)
    def post(self, request: Request, project: str, credential: UUID) -> Response:
        row = self.row(credential)
        given = RotateIn(data=request.data)
        given.is_valid(raise_exception=True)
        said = given.validated_data
        row = services.credential_rotate(
            principal=self.principal,
            credential=row,
            login=services.Login(said.get("username") or row.username, said["password"]),
            expires_at=said.get("expires_at"),
        )
        return Response(_out(row))


class Test(_View):
    """Ask the registry whether it accepts the sign-in."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": CREDENTIAL_MANAGE}

    @extend_schema(request=None, responses=VerdictOut)
    def post(self, request: Request, project: str, credential: UUID) -> Response:
        row = self.row(credential)
        verdict = credential_test(principal=self.principal, credential=row)
        return Response({"ok": verdict.ok, "message": verdict.message})


def _out(row: Credential) -> dict[str, Any]:
    return {
        "id": row.uid,
        "kind": row.kind,
        "name": row.name,
        "host": row.target,
        "username": row.username,
        "usable_by": row.usable_by,
        "stored_by": row.owner.username if row.owner else None,
        "version": row.version,
        "expires_at": row.expires_at,
        "rotated_at": row.rotated_at,
        "last_used_at": row.last_used_at,
        "last_used_for": row.last_used_for,
        "tested_at": row.tested_at,
        "test_ok": row.test_ok,
        "test_message": row.test_message,
        "created_at": row.created_at,
    }
