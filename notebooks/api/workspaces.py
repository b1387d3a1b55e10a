"""The API of workspaces: that of any kind, with its home, its addresses and what it used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from hubapi.registry import workload_url
from hubapi.services import port_short_id
from notebooks import selectors
from notebooks.hub import open_url
from notebooks.kind import WORKSPACE
from notebooks.states import STATES
from notebooks.where import node_of
from runtime.protocol import Phase
from work.api.base import Schema
from work.api.kinds import Api, Reader
from work.api.serializers import OpenPortOut
from work.api.streams import ReadView

if TYPE_CHECKING:
    from notebooks.models import Workspace


def _spec(row: Workspace) -> Mapping[str, Any]:
    return {name: getattr(row, name) for name in ("image_digest", "image_pinned_at")}


def _own(row: Workspace) -> Mapping[str, Any]:
    return {"home": row.home.uid, "idle_stop_minutes": row.idle_stop_minutes}


def _status(row: Workspace, reader: Reader) -> Mapping[str, Any]:
    """Return where it is: its node, and the addresses that the reader may open now."""
    opens = row.phase == Phase.RUNNING and reader.may_open
    at = [workload_url(port_short_id(row.short_id, port["port"])) for port in row.web_ports]
    return {
        "node": node_of(row) if reader.alone else None,
        "url": (open_url(row) or None) if opens else None,
        "ports": [
            {**port, "url": url} for port, url in zip(row.web_ports, at, strict=True) if opens
        ],
    }


class SampleOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    cpu_milli = serializers.IntegerField(allow_null=True)
    memory_mib = serializers.IntegerField(allow_null=True)
    gpu_utilisation = serializers.FloatField(allow_null=True)
    gpu_memory_mib = serializers.IntegerField(allow_null=True)
    gpu_shared = serializers.BooleanField(help_text="others use its GPUs too; figures are theirs")
    gpu_simulated = serializers.BooleanField(help_text="there are no such GPUs")


class Usage(ReadView):
    """What it used in the last two hours, one sample each half minute."""

    @classmethod
    def schema_of(cls, api: Api) -> Schema:  # noqa: ARG003
        return {"get": extend_schema(responses=SampleOut(many=True))}

    def get(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        return Response([asdict(point) for point in selectors.usage_of(self.row())])


API = Api(
    kind=WORKSPACE,
    states=STATES,
    document="manifest",
    own=_own,
    own_shape={
        "home": serializers.UUIDField(),
        "idle_stop_minutes": serializers.IntegerField(allow_null=True),
    },
    spec_own=_spec,
    spec_shape={
        "image_digest": serializers.CharField(
            allow_blank=True,
            help_text="which bytes every start takes; empty: what the tag means then",
        ),
        "image_pinned_at": serializers.DateTimeField(allow_null=True),
    },
    status_own=_status,
    status_shape={
        "node": serializers.CharField(
            allow_null=True,
            help_text="where it was last seen; null while it has none, on one machine, in lists",
        ),
        "url": serializers.CharField(allow_null=True),
        "ports": OpenPortOut(many=True, help_text="ports that you may open now"),
    },
)
