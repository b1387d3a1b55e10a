# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Pools, extra networks and kinds of GPU through the API."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters import selectors, services
from clusters.api import serializers as io
from clusters.api.views import valid
from common.drf.viewsets import PlatformAPIView


class PoolList(PlatformAPIView):
    pagination_class = None  # short by nature: one answer
    required_platform: ClassVar = {"GET": "auditor", "POST": "operator"}

    @extend_schema(responses=io.PoolOut(many=True))
    def get(self, request: Request, cluster: str) -> Response:
        return Response(io.PoolOut(selectors.pools(selectors.cluster_get(cluster)), many=True).data)

    @extend_schema(request=io.PoolChange, responses={201: io.PoolOut})
    def post(self, request: Request, cluster: str) -> Response:
        row = selectors.cluster_get(cluster)
        values = valid(io.PoolChange, request)
        made = services.pool_save(principal=self.principal, cluster=row, values=values)
        return Response(io.PoolOut(made).data, status=201)


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


class NetworkList(PlatformAPIView):
    pagination_class = None  # short by nature: one answer
    required_platform: ClassVar = {"GET": "auditor", "POST": "operator"}

    @extend_schema(responses=io.NetworkOut(many=True))
    def get(self, request: Request, cluster: str) -> Response:
        rows = selectors.networks(selectors.cluster_get(cluster))
        return Response(io.NetworkOut(rows, many=True).data)

    @extend_schema(request=io.NetworkChange, responses={201: io.NetworkOut})
    def post(self, request: Request, cluster: str) -> Response:
        row = selectors.cluster_get(cluster)
        values = valid(io.NetworkChange, request)
        made = services.network_save(principal=self.principal, cluster=row, values=values)
        return Response(io.NetworkOut(made).data, status=201)


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
