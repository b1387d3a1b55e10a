"""The API of endpoints, mounted below /api/v1/: that of any kind, with canary and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.response import Response

from accounts.api.serializers import line
from accounts.api.views import NeverStored
from common.drf.serializers import StrictSerializer
from runtime.protocol import Seen
from serving import services
from serving.address import address_of
from serving.choices import How, State
from serving.kind import ENDPOINT
from serving.models import EndpointKey
from serving.selectors import replicas_of
from serving.services.keys import MAX_LIMIT
from serving.states import STATES
from work.api.base import ActView, OneView, ReasonedActView
from work.api.kinds import Api
from work.api.views import urls_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rest_framework.request import Request

    from serving.models import Endpoint
    from work.api.base import Schema
    from work.api.kinds import Reader


def _own(row: Endpoint) -> dict[str, Any]:
    return {
        "url": address_of(row),
        "replicas": row.replicas,
        "canary_percent": row.canary_percent,
        "promoting": row.promoting,
        "rolls_back": row.rolls_back,
        "taken_over": row.taken_over,
        "called_at": row.called_at,
        "scaling_problem": row.scaling_problem,
    }


class CanaryOut(serializers.Serializer[Any]):
    """What stands beside an endpoint and gets a share of its requests."""

    model = serializers.CharField(allow_blank=True)
    image = serializers.CharField(allow_blank=True)
    state = serializers.ChoiceField(State.choices)
    why = serializers.CharField(allow_blank=True)
    percent = serializers.IntegerField(help_text="of requests; one that is not ready gets none")
    replicas = serializers.IntegerField()
    leaves = serializers.BooleanField(help_text="it was taken away, and ends")


def canary_out(row: Endpoint) -> dict[str, Any] | None:
    canary = row.canary
    if canary is None:
        return None
    return {
        **{name: getattr(canary, name) for name in ("model", "image", "replicas")},
        "state": STATES.of(canary),
        "why": STATES.why(canary).sentence,
        "percent": row.canary_percent,
        "leaves": row.canary_leaves,
    }


class ServedReplicaOut(serializers.Serializer[Any]):
    """One of its replicas; the number only tells one from another now."""

    index = serializers.IntegerField()
    state = serializers.ChoiceField([seen.value for seen in Seen])
    address = serializers.CharField(allow_blank=True, help_text="of one that answers")
    node = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    restarts = serializers.IntegerField(help_text="in this launch")
    started_at = serializers.DateTimeField(allow_null=True)


def _in_detail(row: Endpoint, _reader: Reader) -> dict[str, Any]:
    return {"canary": canary_out(row), "replica_states": replicas_of(row)}


API = Api(
    kind=ENDPOINT,
    states=STATES,
    own=_own,
    own_shape={
        "url": serializers.CharField(help_text="where it is called; its server's paths follow"),
        "replicas": serializers.IntegerField(help_text="how many are wanted now"),
        "canary_percent": serializers.IntegerField(help_text="of requests, that go to its canary"),
        "promoting": serializers.BooleanField(help_text="what its canary serves becomes its own"),
        "rolls_back": serializers.BooleanField(help_text="to what it served before"),
        "taken_over": serializers.BooleanField(help_text="what runs is its former owner's"),
        "called_at": serializers.DateTimeField(allow_null=True, help_text="its latest request"),
        "scaling_problem": serializers.CharField(
            allow_blank=True, help_text="why it has fewer replicas than its requests need"
        ),
    },
    detail=_in_detail,
    detail_shape={
        "canary": CanaryOut(allow_null=True, help_text="null in lists, and where there is none"),
        "replica_states": ServedReplicaOut(many=True, allow_null=True, help_text="null in lists"),
    },
)


class ServedOut(serializers.Serializer[Any]):
    """What an endpoint served from a moment on, until the next one."""

    serves = serializers.CharField()
    since = serializers.DateTimeField(source="at")
    how = serializers.ChoiceField(How.choices)
    by = serializers.CharField(source="by.username", default=None, allow_null=True)
    launch = serializers.IntegerField()
    image_digest = serializers.CharField(allow_blank=True)


class WorkSleep(ReasonedActView):
    """Put an {one} to sleep: it holds nothing until the next request, which wakes it."""

    act: ClassVar[Callable[..., Any]] = staticmethod(services.endpoint_sleep)


class WorkTakeover(ReasonedActView):
    """Make an {one} of somebody else one's own; nothing is unanswered meanwhile."""

    act: ClassVar[Callable[..., Any]] = staticmethod(services.endpoint_takeover)


class EndpointKeyOut(serializers.ModelSerializer[EndpointKey]):
    id = serializers.UUIDField(source="uid")
    created_by = serializers.CharField(source="created_by.username", default=None, allow_null=True)

    class Meta:
        model = EndpointKey
        fields: tuple[str, ...] = (
            "id", "name", "prefix", "requests_per_second", "concurrent", "requests_per_day",
            "created_at", "created_by", "expires_at", "last_used_at", "revoked_at",
        )  # fmt: skip


class EndpointKeyMadeOut(EndpointKeyOut):
    key = serializers.CharField(help_text=_("Shown this once."))

    class Meta(EndpointKeyOut.Meta):
        fields = (*EndpointKeyOut.Meta.fields, "key")


class EndpointKeyIn(StrictSerializer):
    name = line(max_length=80)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)
    requests_per_second = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_LIMIT, help_text="0: no limit"
    )
    concurrent = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_LIMIT, help_text="at once; 0: no limit"
    )
    requests_per_day = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_LIMIT, help_text="0: no limit"
    )


class WorkKeys(NeverStored, OneView):
    """The keys that may call an {one}; a new one is shown once."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "create", "POST": "create"}

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        return {
            "get": extend_schema(
                operation_id=f"{api.kind.word}_keys_list", responses=EndpointKeyOut(many=True)
            ),
            "post": extend_schema(request=EndpointKeyIn, responses={201: EndpointKeyMadeOut}),
        }

    def get(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        page = self.paginate_queryset(services.keys_of(self.principal, self.row()))
        return self.get_paginated_response(EndpointKeyOut(page, many=True).data)

    def post(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        said = self.given(EndpointKeyIn)
        key, secret = services.key_make(principal=self.principal, row=self.row(), **said)
        told = {**EndpointKeyOut(key).data, "key": secret}
        return Response(told, status=status.HTTP_201_CREATED)


class WorkKey(OneView):
    """Revoke a key of an {one}: within seconds it calls nothing more, and its streams end."""

    demands: ClassVar[Mapping[str, str]] = {"DELETE": "create"}

    @classmethod
    def schema_of(cls, api: Api) -> Schema:  # noqa: ARG003
        return {"delete": extend_schema(responses={204: None})}

    def delete(self, request: Request, **ids: str) -> Response:  # noqa: ARG002
        services.key_revoke(principal=self.principal, row=self.row(), uid=ids["key"])
        return Response(status=status.HTTP_204_NO_CONTENT)


class WorkCanary(OneView):
    """Put a canary beside an {one}, the same but for what is said; take it away."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "create", "DELETE": "create"}

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        return {
            "post": extend_schema(request=api.edits, responses={202: api.gives}),
            "delete": extend_schema(responses={202: api.gives}),
        }

    def post(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        row = self.row()
        said = self.given(self.api.edits)
        services.canary_make(principal=self.principal, row=row, said=said)
        return self.accepted(row)

    def delete(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        return self.accepted(services.canary_end(principal=self.principal, row=self.row()))


class SplitIn(StrictSerializer):
    percent = serializers.IntegerField(min_value=0, max_value=100)


class WorkCanarySplit(ActView):
    """Have a share of the requests of an {one} go to its canary; 0 rolls back at once."""

    takes = SplitIn
    act: ClassVar[Callable[..., Any]] = staticmethod(services.canary_split)

    def told(self) -> dict[str, Any]:
        return {"percent": self.given(SplitIn)["percent"]}


class WorkCanaryPromote(ActView):
    """Make what its canary serves the own of an {one}; nothing is unanswered meanwhile."""

    act: ClassVar[Callable[..., Any]] = staticmethod(services.canary_promote)


class WorkServed(OneView):
    """What an {one} served when, and by whom; the newest first."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "read"}

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        name = f"{api.kind.word}_served_list"
        return {"get": extend_schema(operation_id=name, responses=ServedOut(many=True))}

    def get(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        page = self.paginate_queryset(services.served_by(self.row()))
        return self.get_paginated_response(ServedOut(page, many=True).data)


class WorkRollBack(ActView):
    """Serve what an {one} served before; nothing is unanswered meanwhile."""

    act: ClassVar[Callable[..., Any]] = staticmethod(services.endpoint_roll_back)


urlpatterns = urls_for(
    API,
    own={
        "sleep": WorkSleep,
        "takeover": WorkTakeover,
        "keys": WorkKeys,
        "keys/<uuid:key>": WorkKey,
        "canary": WorkCanary,
        "canary/split": WorkCanarySplit,
        "canary/promote": WorkCanaryPromote,
        "served": WorkServed,
        "roll-back": WorkRollBack,
    },
)
