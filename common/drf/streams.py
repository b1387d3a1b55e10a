"""What routes share that answer a log: in parts as JSON, or followed as a stream of events."""

import json
from collections.abc import Mapping
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from common.errors import Invalid

MAX_OFFSET = 2**53 - 1
_DIGITS = len(str(MAX_OFFSET))
PART_OF_A_LOG = [
    OpenApiParameter("offset", OpenApiTypes.INT),
    OpenApiParameter("limit", OpenApiTypes.INT),
]


class LogOut(serializers.Serializer[Any]):
    text = serializers.CharField(allow_blank=True)
    offset = serializers.IntegerField(help_text="where to go on")


class EventStreamRenderer(BaseRenderer):
    """Lets a client ask for a stream; errors before it begins are problem documents."""

    media_type = "text/event-stream"
    format = "sse"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,  # noqa: ARG002
        renderer_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> bytes:
        return json.dumps(data, default=str).encode()


def wants_stream(request: Request) -> bool:
    return getattr(request.accepted_renderer, "format", "") == EventStreamRenderer.format


def offset_of(request: Request) -> int:
    """Return where to begin; a browser that comes again says where its stream broke off."""
    offset = whole(request, "offset", 0, MAX_OFFSET)
    last = request.headers.get("Last-Event-ID", "") if wants_stream(request) else ""
    known = last.isascii() and last.isdecimal() and len(last) <= _DIGITS
    return min(int(last), MAX_OFFSET) if known else offset


def whole(request: Request, name: str, default: int, high: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    known = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    if not known or int(text) > high:
        raise Invalid(f"{name}: a whole number from 0 to {high}.", fields={name: ["invalid"]})
    return int(text)
