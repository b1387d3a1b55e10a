# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Clusters through the API: everybody sees what is free, operators see and change the rest."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from clusters import selectors, services
from clusters.api import serializers as io
from clusters.device_use import KindUse, kinds_for, node_uses, uses, with_holders
from clusters.installed import has_simulated_gpus
from clusters.models import Cluster, Node
from clusters.options import options_of
from clusters.services.base import KINDS_OF_WORK
from clusters.usable import launch_refusal
from common.drf.views import ANY_TOKEN, PlatformAPIView
from common.errors import Invalid
from common.paging import CursorPagination


def valid(kind: Any, request: Request) -> dict[str, Any]:
    given = kind(data=request.data)
    given.is_valid(raise_exception=True)
    return dict(given.validated_data)


def shown(cluster: Cluster, kinds: list[KindUse] | None = None) -> dict[str, Any]:
    """Return the operators' view of one cluster."""
    made = {"gpus", "gpus_simulated", "options", "launch_refusal"}
    names = [str(name) for name in io.ClusterOut().fields]
    found: dict[str, Any] = {name: getattr(cluster, name) for name in names if name not in made}
    found["options"] = options_of(cluster.options).as_json() if cluster.is_attached else {}
    found["gpus"] = uses([cluster]) if kinds is None else kinds
    found["gpus_simulated"] = has_simulated_gpus(cluster.key)
    found["launch_refusal"] = launch_refusal(cluster.key)
    return dict(io.ClusterOut(found).data)


class ClusterList(PlatformAPIView):
    """Where work can run and what is free there. Operators attach a cluster by POST."""

    pagination_class = None  # short by nature: one answer
    required_platform: ClassVar = {"GET": "user", "POST": "operator"}
    limited_tokens: ClassVar = {"GET": ANY_TOKEN}

    @extend_schema(operation_id="clusters_list", responses=io.ClusterBrief(many=True))
    def get(self, request: Request) -> Response:
        clusters = list(selectors.clusters())
        kinds = kinds_for(clusters, None, KINDS_OF_WORK)
        rows = [
            {
                "key": cluster.key,
                "name": cluster.name,
                "enabled": cluster.enabled,
                "drain": cluster.drain,
                "reachable": cluster.reachable,
                "checked_at": cluster.checked_at,
                "gpus_simulated": has_simulated_gpus(cluster.key),
                "gpus": [use for use in kinds if use.cluster.pk == cluster.pk],
            }
            for cluster in clusters
        ]
        return Response(io.ClusterBrief(rows, many=True).data)

    @extend_schema(request=io.ClusterAttach, responses={201: io.ClusterOut})
    def post(self, request: Request) -> Response:
        given = valid(io.ClusterAttach, request)
        made = services.cluster_attach(principal=self.principal, given=services.Attachment(**given))
        return Response(shown(made), status=201)


class ClusterDetail(PlatformAPIView):
    """One cluster. DELETE detaches it; refused while there is work on it.

    What stays there (files above all) is answered, and kept in the audit.
    """

    required_platform: ClassVar = {"GET": "auditor", "PATCH": "operator", "DELETE": "operator"}

    @extend_schema(responses=io.ClusterOut)
    def get(self, request: Request, cluster: str) -> Response:
        return Response(shown(selectors.cluster_get(cluster)))

    @extend_schema(request=io.ClusterChange, responses=io.ClusterOut)
    def patch(self, request: Request, cluster: str) -> Response:
        row = selectors.cluster_get(cluster)
        given = valid(io.ClusterChange, request)
        options = given.pop("options", None)
        changed = services.cluster_update(
            principal=self.principal, cluster=row, values=given, options=options
        )
        return Response(shown(changed))

    @extend_schema(
        parameters=[
            OpenApiParameter("confirm", str, required=True, description="The cluster's name."),
            OpenApiParameter(
                "forget",
                bool,
                description="Also with work on it; only of a cluster that does not answer.",
            ),
        ],
        responses=io.ClusterLeft,
    )
    def delete(self, request: Request, cluster: str) -> Response:
        row = selectors.cluster_get(cluster)
        confirm = request.query_params.get("confirm", "")
        forget = request.query_params.get("forget", "").lower() in {"1", "true", "yes"}
        act = services.cluster_forget if forget else services.cluster_detach
        left = act(principal=self.principal, cluster=row, confirm=confirm)
        return Response(io.ClusterLeft({"left": left}).data)


class ClusterKubeconfig(PlatformAPIView):
    """Another credential for the same cluster. It can be written, never read."""

    required_platform: ClassVar = {"PUT": "operator"}

    @extend_schema(request=io.KubeconfigIn, responses=io.ClusterOut)
    def put(self, request: Request, cluster: str) -> Response:
        row = selectors.cluster_get(cluster)
        given = valid(io.KubeconfigIn, request)
        changed = services.kubeconfig_replace(principal=self.principal, cluster=row, **given)
        return Response(shown(changed))


class ByName(CursorPagination):
    ordering = ("name", "id")  # type: ignore[assignment]  # DRF takes a tuple too


class ClusterNodes(PlatformAPIView):
    """Nodes with their GPUs: how many are held, by whom, and how they are used."""

    required_platform: ClassVar = {"GET": "auditor"}
    serializer_class = io.NodeOut
    pagination_class = ByName
    queryset = Node.objects.none()

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "search",
                str,
                description="Part of the name, of a label's value, or of who holds GPUs there.",
            ),
            OpenApiParameter("kind", str, description="Only nodes with this kind of GPU."),
            OpenApiParameter("ready", bool),
        ],
        responses=io.NodeOut(many=True),
    )
    def get(self, request: Request, cluster: str) -> Response:
        row = selectors.cluster_get(cluster)
        query = request.query_params
        ready = query.get("ready", "").lower()
        rows = selectors.nodes(
            row,
            search=query.get("search", "")[:80].replace("\x00", ""),
            kind=query.get("kind", "")[:63].replace("\x00", ""),
            ready=None if not ready else ready in {"1", "true", "yes"},
        )
        page = self.paginate_queryset(rows) or []
        uses = with_holders(node_uses(row, page))
        return self.get_paginated_response(io.NodeOut(uses, many=True).data)


class ClusterChecks(PlatformAPIView):
    """The last self-check. POST asks for another one; the worker runs it within seconds."""

    pagination_class = None  # short by nature: one answer
    required_platform: ClassVar = {"GET": "auditor", "POST": "operator"}

    @extend_schema(responses=io.CheckOut(many=True))
    def get(self, request: Request, cluster: str) -> Response:
        rows = selectors.checks(selectors.cluster_get(cluster))
        return Response(io.CheckOut(rows, many=True).data)

    @extend_schema(request=None, responses={202: None})
    def post(self, request: Request, cluster: str) -> Response:
        if request.data:
            raise Invalid("Nothing is expected here.")
        services.checks_ask(principal=self.principal, cluster=selectors.cluster_get(cluster))
        return Response(status=202)


# Pools, extra networks and kinds of GPU through the API.


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


# One pool or network, which its service calls by the same word as its address.
class PartDetail(PlatformAPIView):
    required_platform: ClassVar = {"PATCH": "operator", "DELETE": "operator"}
    one: ClassVar[Callable[[str, str], Any]]
    save: ClassVar[Callable[..., Any]]
    remove: ClassVar[Callable[..., None]]
    taken: ClassVar[type[Serializer[Any]]]
    shown: ClassVar[type[Serializer[Any]]]

    def patch(self, request: Request, cluster: str, **name: str) -> Response:
        ((word, called),) = name.items()
        row = type(self).one(cluster, called)
        changed = type(self).save(
            principal=self.principal,
            cluster=row.cluster,
            values=valid(self.taken, request),
            **{word: row},
        )
        return Response(self.shown(changed).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, cluster: str, **name: str) -> Response:
        ((word, called),) = name.items()
        type(self).remove(principal=self.principal, **{word: type(self).one(cluster, called)})
        return Response(status=204)


@extend_schema_view(patch=extend_schema(request=io.PoolChange, responses=io.PoolOut))
class PoolDetail(PartDetail):
    one, save, remove = selectors.pool_get, services.pool_save, services.pool_delete
    taken, shown = io.PoolChange, io.PoolOut


@extend_schema_view(
    get=extend_schema(responses=io.NetworkOut(many=True)),
    post=extend_schema(request=io.NetworkChange, responses={201: io.NetworkOut}),
)
class NetworkList(PartList):
    """Extra networks of a cluster, and who may ask for them."""

    rows, save = selectors.networks, services.network_save
    taken, shown = io.NetworkChange, io.NetworkOut


@extend_schema_view(patch=extend_schema(request=io.NetworkChange, responses=io.NetworkOut))
class NetworkDetail(PartDetail):
    one, save, remove = selectors.network_get, services.network_save, services.network_delete
    taken, shown = io.NetworkChange, io.NetworkOut


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


_ONE = "clusters/<slug:cluster>"

urlpatterns = [
    path("clusters", ClusterList.as_view(), name="api-clusters"),
    path(_ONE, ClusterDetail.as_view(), name="api-cluster"),
    path(f"{_ONE}/kubeconfig", ClusterKubeconfig.as_view(), name="api-cluster-kubeconfig"),
    path(f"{_ONE}/nodes", ClusterNodes.as_view(), name="api-cluster-nodes"),
    path(f"{_ONE}/checks", ClusterChecks.as_view(), name="api-cluster-checks"),
    path(f"{_ONE}/pools", PoolList.as_view(), name="api-cluster-pools"),
    path(f"{_ONE}/pools/<str:pool>", PoolDetail.as_view(), name="api-cluster-pool"),
    path(f"{_ONE}/networks", NetworkList.as_view(), name="api-cluster-networks"),
    path(f"{_ONE}/networks/<str:network>", NetworkDetail.as_view(), name="api-cluster-network"),
    path("flavors", FlavorList.as_view(), name="api-flavors"),
    path("flavors/<str:flavor>", FlavorDetail.as_view(), name="api-flavor"),
]
