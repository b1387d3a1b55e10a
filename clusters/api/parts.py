# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Pools, extra networks and kinds of GPU through the API."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from clusters import selectors, services
from clusters.api import serializers as io
from clusters.api.views import valid
from clusters.models import Cluster
from common.drf.views import ANY_TOKEN, PlatformAPIView


class PartList(PlatformAPIView):
    """What a cluster is made of, one kind of it. Each kind names its rows, shapes and service."""

    pagination_class = None  # short by nature: one answer
    required_platform: ClassVar = {"GET": "auditor", "POST": "operator"}
    rows: ClassVar[Callable[[Cluster], Iterable[Any]]]
    save: ClassVar[Callable[..., Any]]
    taken: ClassVar[type[Serializer[Any]]]
    shown: ClassVar[type[Serializer[Any]]]

    def get(self, request: Request, cluster: str) -> Response:
        rows = type(self).rows(selectors.cluster_get(cluster))
        return Response(self.shown(rows, many=True).data)

    def post(self, request: Request, cluster: str) -> Response:
        row = selectors.cluster_get(cluster)
        values = valid(self.taken, request)
        made = type(self).save(principal=self.principal, cluster=row, values=values)
        return Response(self.shown(made).data, status=201)


@extend_schema_view(
    get=extend_schema(responses=io.PoolOut(many=True)),
    post=extend_schema(request=io.PoolChange, responses={201: io.PoolOut}),
)
class PoolList(PartList):
    """Nodes by label under a name; with kinds of work or projects they are reserved."""

    rows, save = selectors.pools, services.pool_save
    taken, shown = io.PoolChange, io.PoolOut


class PoolDetail(PlatformAPIView):
    required_platform: ClassVar = {"PATCH": "operator", "DELETE": "operator"}

    @extend_schema(request=io.PoolChange, responses=io.PoolOut)
    def patch(self, request: Request, cluster: str, pool: str) -> Response:
        row = selectors.pool_get(cluster, pool)
        values = valid(io.PoolChange, request)
        changed = services.pool_save(
            principal=self.principal, cluster=row.cluster, values=values, pool=row
        )
        return Response(io.PoolOut(changed).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, cluster: str, pool: str) -> Response:
        services.pool_delete(principal=self.principal, pool=selectors.pool_get(cluster, pool))
        return Response(status=204)


@extend_schema_view(
    get=extend_schema(responses=io.NetworkOut(many=True)),
    post=extend_schema(request=io.NetworkChange, responses={201: io.NetworkOut}),
)
class NetworkList(PartList):
    """Extra networks of a cluster, and who may ask for them."""

    rows, save = selectors.networks, services.network_save
    taken, shown = io.NetworkChange, io.NetworkOut


class NetworkDetail(PlatformAPIView):
    required_platform: ClassVar = {"PATCH": "operator", "DELETE": "operator"}

    @extend_schema(request=io.NetworkChange, responses=io.NetworkOut)
    def patch(self, request: Request, cluster: str, network: str) -> Response:
        row = selectors.network_get(cluster, network)
        values = valid(io.NetworkChange, request)
        changed = services.network_save(
            principal=self.principal, cluster=row.cluster, values=values, network=row
        )
        return Response(io.NetworkOut(changed).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, cluster: str, network: str) -> Response:
        row = selectors.network_get(cluster, network)
        services.network_delete(principal=self.principal, network=row)
        return Response(status=204)


class FlavorList(PlatformAPIView):
    """Kinds of GPU by name, with what an hour costs."""

    pagination_class = None  # short by nature: one answer
    required_platform: ClassVar = {"GET": "user", "POST": "operator"}
    limited_tokens: ClassVar = {"GET": ANY_TOKEN}

    @extend_schema(responses=io.FlavorOut(many=True))
    def get(self, request: Request) -> Response:
        return Response(io.FlavorOut(selectors.flavors(), many=True).data)

    @extend_schema(request=io.FlavorMake, responses={201: io.FlavorOut})
    def post(self, request: Request) -> Response:
        values: dict[str, Any] = valid(io.FlavorMake, request)
        made = services.flavor_save(principal=self.principal, values=values)
        return Response(io.FlavorOut(made).data, status=201)


class FlavorDetail(PlatformAPIView):
    required_platform: ClassVar = {"PATCH": "operator", "DELETE": "operator"}

    @extend_schema(request=io.FlavorChange, responses=io.FlavorOut)
    def patch(self, request: Request, flavor: str) -> Response:
        row = selectors.flavor_get(flavor)
        values = valid(io.FlavorChange, request)
        changed = services.flavor_save(principal=self.principal, values=values, flavor=row)
        return Response(io.FlavorOut(changed).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, flavor: str) -> Response:
        services.flavor_delete(principal=self.principal, flavor=selectors.flavor_get(flavor))
        return Response(status=204)
