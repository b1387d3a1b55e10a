# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The API of credentials: secrets go in, and no answer ever holds one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.urls import path
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.views import AccountView
from accounts.principal import Principal
from common.drf.serializers import StrictSerializer, given
from credentials import references, selectors, services
from credentials.choices import CredentialKind, UsableBy
from credentials.kinds import KINDS, TOLD, Field, Kind, Part, Shape, kind_of
from credentials.kinds.others import VALUE_MAX
from credentials.models import Credential
from credentials.probe import credential_test
from projects.access import Permission
from projects.api.base import ProjectAPIView
from projects.models import Project


class HolderOut(serializers.Serializer[Any]):
    kind = serializers.CharField()
    id = serializers.UUIDField(source="uid")
    name = serializers.CharField()
    url = serializers.CharField()
    who = serializers.CharField()


class CredentialOut(serializers.Serializer[Any]):
    """What may be shown. There is no field for a secret, in no kind."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    personal = serializers.BooleanField()
    target = serializers.CharField()
    host = serializers.CharField()
    username = serializers.CharField()
    settings = serializers.DictField()
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


class CredentialDetailOut(CredentialOut):
    used_by = HolderOut(many=True)


class VerdictOut(serializers.Serializer[Any]):
    ok = serializers.BooleanField(allow_null=True, help_text="null: it can't be told")
    message = serializers.CharField()


class _LabelIn(StrictSerializer):
    name = serializers.CharField(max_length=services.NAME_MAX)
    description = serializers.CharField(
        max_length=services.TEXT_MAX, required=False, allow_blank=True
    )
    usable_by = serializers.ChoiceField(choices=UsableBy.values, required=False)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


class _RotateIn(StrictSerializer):
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


def add_in(kind: Kind) -> type[StrictSerializer]:
    made: dict[str, Any] = {f.name: _field(f) for f in kind.fields}
    # before there were others, a credential without a kind was a registry's
    named = [kind.kind.value]
    made["kind"] = serializers.ChoiceField(choices=named, required=kind.kind.value != "registry")
    return type(_camel(kind, "CredentialIn"), (_LabelIn,), made)


def rotate_in(kind: Kind) -> type[StrictSerializer]:
    """What is shown may stay away: then it is kept."""
    fields = [f for f in kind.fields if f.part is Part.SECRET]
    made = {f.name: _field(f, required=f.required and f.hidden) for f in fields}
    return type(_camel(kind, "RotateIn"), (_RotateIn,), made)


def edit_in(kind: Kind) -> type[StrictSerializer]:
    fields = [f for f in kind.fields if f.part is Part.SETTING]
    made: dict[str, Any] = {f.name: _field(f, required=False) for f in fields}
    made["name"] = serializers.CharField(max_length=services.NAME_MAX, required=False)
    return type(_camel(kind, "EditIn"), (_LabelIn,), made)


def _camel(kind: Kind, end: str) -> str:
    return "".join(part.title() for part in kind.kind.value.split("-")) + end


def _field(given: Field, *, required: bool | None = None) -> serializers.Field[Any, Any, Any, Any]:
    needed = given.required if required is None else required
    more: dict[str, Any] = {"required": needed, "write_only": given.hidden}
    if given.shape is Shape.FLAG:
        return serializers.BooleanField(**more)
    if given.shape is Shape.CHOICE:
        return serializers.ChoiceField(choices=[value for value, _label in given.choices], **more)
    if given.shape is Shape.PAIRS:
        value = serializers.CharField(max_length=VALUE_MAX, trim_whitespace=False)
        return serializers.DictField(child=value, allow_empty=False, **more)
    style = {"input_type": "password"} if given.hidden else {}
    return serializers.CharField(
        max_length=given.limit, allow_blank=not given.required, style=style, **more
    )


ADD_IN = {name: add_in(kind) for name, kind in KINDS.items()}
ROTATE_IN = {name: rotate_in(kind) for name, kind in KINDS.items()}
EDIT_IN = {name: edit_in(kind) for name, kind in KINDS.items()}


def described(name: str, by_kind: dict[str, type[StrictSerializer]]) -> PolymorphicProxySerializer:
    """What the API's document says: one of these."""
    return PolymorphicProxySerializer(
        component_name=name, serializers=list(by_kind.values()), resource_type_field_name=None
    )


READ, MANAGE, USE = (
    Permission.CREDENTIAL_READ,
    Permission.CREDENTIAL_MANAGE,
    Permission.CREDENTIAL_USE,
)
_LABEL = ("name", "description", "usable_by", "expires_at")
_ADD = extend_schema(request=described("CredentialIn", ADD_IN), responses={201: CredentialOut})
_EDIT = extend_schema(request=described("CredentialEdit", EDIT_IN), responses=CredentialDetailOut)
_ROTATE = extend_schema(
    request=described("CredentialRotate", ROTATE_IN), responses=CredentialDetailOut
)
_TEST = extend_schema(request=None, responses=VerdictOut)


class _ProjectView(ProjectAPIView):
    serializer_class = CredentialOut

    def row(self, uid: UUID) -> Credential:
        return selectors.credential_get(self.principal, uid, self.project)


class CredentialList(_ProjectView):
    """The credentials of a project."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ, "POST": MANAGE}

    @extend_schema(responses=CredentialOut(many=True))
    def get(self, request: Request, project: str) -> Response:
        rows = selectors.credentials_visible_to(self.principal, self.project).order_by("-id")
        page = self.paginate_queryset(rows)
        return self.get_paginated_response([shown(row) for row in page or []])

    @_ADD
    def post(self, request: Request, project: str) -> Response:
        return _added(request, self.principal, self.project)


class UsableList(_ProjectView):
    """What the caller may put to use in own work here: the project's and the own ones."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": USE}

    @extend_schema(
        parameters=[OpenApiParameter("kind", str, enum=CredentialKind.values, many=True)],
        responses=CredentialOut(many=True),
    )
    def get(self, request: Request, project: str) -> Response:
        kinds = [kind_of(name).kind for name in request.query_params.getlist("kind")] or None
        rows = selectors.credentials_usable(self.principal, self.project, kinds).order_by("-id")
        page = self.paginate_queryset(rows)
        return self.get_paginated_response([shown(row) for row in page or []])


class CredentialDetail(_ProjectView):
    """One credential."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": READ,
        "PATCH": MANAGE,
        "DELETE": MANAGE,
    }

    @extend_schema(responses=CredentialDetailOut)
    def get(self, request: Request, project: str, credential: UUID) -> Response:
        return Response(_detail(self.row(credential)))

    @_EDIT
    def patch(self, request: Request, project: str, credential: UUID) -> Response:
        return _edited(request, self.principal, self.row(credential))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, project: str, credential: UUID) -> Response:
        return _deleted(self.principal, self.row(credential))


class Rotate(_ProjectView):
    """Replace the secret; what starts from now on uses the new one."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": MANAGE}

    @_ROTATE
    def post(self, request: Request, project: str, credential: UUID) -> Response:
        return _rotated(request, self.principal, self.row(credential))


class Test(_ProjectView):
    """Ask what it opens whether it is let in."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": MANAGE}

    @_TEST
    def post(self, request: Request, project: str, credential: UUID) -> Response:
        return _tested(self.principal, self.row(credential))


class _OwnView(AccountView):
    serializer_class = CredentialOut

    def row(self, uid: UUID) -> Credential:
        return selectors.credential_own_get(self.principal, uid)


class OwnList(_OwnView):
    """One's own credentials, for work in any of one's projects."""

    @extend_schema(operation_id="me_credentials_list", responses=CredentialOut(many=True))
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(selectors.credentials_own(self.principal).order_by("-id"))
        return self.get_paginated_response([shown(row) for row in page or []])

    @extend_schema(operation_id="me_credentials_add")
    @_ADD
    def post(self, request: Request) -> Response:
        return _added(request, self.principal, None)


class OwnDetail(_OwnView):
    @extend_schema(operation_id="me_credentials_get", responses=CredentialDetailOut)
    def get(self, request: Request, own: UUID) -> Response:
        return Response(_detail(self.row(own)))

    @extend_schema(operation_id="me_credentials_edit")
    @_EDIT
    def patch(self, request: Request, own: UUID) -> Response:
        return _edited(request, self.principal, self.row(own))

    @extend_schema(operation_id="me_credentials_delete", responses={204: None})
    def delete(self, request: Request, own: UUID) -> Response:
        return _deleted(self.principal, self.row(own))


class OwnRotate(_OwnView):
    @extend_schema(operation_id="me_credentials_rotate")
    @_ROTATE
    def post(self, request: Request, own: UUID) -> Response:
        return _rotated(request, self.principal, self.row(own))


class OwnTest(_OwnView):
    @extend_schema(operation_id="me_credentials_test")
    @_TEST
    def post(self, request: Request, own: UUID) -> Response:
        return _tested(self.principal, self.row(own))


def shown(row: Credential) -> dict[str, Any]:
    """Return what may be told of it."""
    names = kind_of(row.kind).shown()
    told = ("kind", "name", "description", "target", "username", "usable_by", "version")
    times = ("expires_at", "rotated_at", "last_used_at", "tested_at", "created_at")
    return {
        "id": row.uid,
        **{name: getattr(row, name) for name in (*told, *times, "last_used_for", "test_ok")},
        "personal": row.is_personal,
        "host": str(row.public.get("host", "")),
        "settings": {n: row.public[n] for n in (*names, *TOLD) if n in row.public},
        "stored_by": row.owner.username if row.owner else None,
        "test_message": row.test_sentence,
    }


def _detail(row: Credential) -> dict[str, Any]:
    return dict(CredentialDetailOut({**shown(row), "used_by": references.of(row)}).data)


def _added(request: Request, who: Principal, project: Project | None) -> Response:
    sent = request.data if isinstance(request.data, Mapping) else {}  # the shape says no to a list
    named = sent.get("kind", CredentialKind.REGISTRY.value)
    kind = kind_of(str(named)).kind.value
    said = given(ADD_IN[kind], request)
    said.pop("kind", None)
    label = {name: said.pop(name) for name in _LABEL if name in said}
    label.setdefault("usable_by", UsableBy.MEMBERS.value)
    row = services.credential_add(
        principal=who, project=project, kind=kind, label=services.Label(**label), fields=said
    )
    return Response(shown(row), status=status.HTTP_201_CREATED)


def _edited(request: Request, who: Principal, row: Credential) -> Response:
    said = given(EDIT_IN[row.kind], request)
    row = services.credential_edit(principal=who, credential=row, changes=said)
    return Response(_detail(row))


def _rotated(request: Request, who: Principal, row: Credential) -> Response:
    said = given(ROTATE_IN[row.kind], request)
    at = said.pop("expires_at", None)
    row = services.credential_rotate(principal=who, credential=row, fields=said, expires_at=at)
    return Response(_detail(row))


def _deleted(who: Principal, row: Credential) -> Response:
    services.credential_delete(principal=who, credential=row, confirm=row.name)
    return Response(status=status.HTTP_204_NO_CONTENT)


def _tested(who: Principal, row: Credential) -> Response:
    verdict = credential_test(principal=who, credential=row)
    return Response({"ok": verdict.ok, "message": verdict.message})


_ALL = "projects/<slug:project>/credentials"
_ONE = f"{_ALL}/<uuid:credential>"
_OWN = "me/credentials/<uuid:own>"

urlpatterns = [
    path(_ALL, CredentialList.as_view(), name="api-credentials"),
    path(f"{_ALL}/usable", UsableList.as_view(), name="api-credentials-usable"),
    path(_ONE, CredentialDetail.as_view(), name="api-credential"),
    path(f"{_ONE}/rotate", Rotate.as_view(), name="api-credential-rotate"),
    path(f"{_ONE}/test", Test.as_view(), name="api-credential-test"),
    path("me/credentials", OwnList.as_view(), name="api-own-credentials"),
    path(_OWN, OwnDetail.as_view(), name="api-own-credential"),
    path(f"{_OWN}/rotate", OwnRotate.as_view(), name="api-own-credential-rotate"),
    path(f"{_OWN}/test", OwnTest.as_view(), name="api-own-credential-test"),
]
