"""What goes in and out of the API everywhere, and how its document tells of it."""

import json
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema_field
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from common.errors import Invalid, no_such_field


class StrictSerializer(serializers.Serializer[Any]):
    """Unknown fields are an error that names them, never silently dropped."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = sorted(str(key)[:80] for key in data if key not in self.fields)
            if unknown:
                raise serializers.ValidationError(
                    {key: [no_such_field(key, self.fields)] for key in unknown[:20]}
                )
        return super().to_internal_value(data)


def given(shape: type[StrictSerializer], request: Request) -> dict[str, Any]:
    """Return the checked input, or raise what becomes a 400."""
    filled = shape(data=request.data)
    filled.is_valid(raise_exception=True)
    return dict(filled.validated_data)


@extend_schema_field(OpenApiTypes.STR)
class CurrencyField(serializers.Field[Any, Any, str, Any]):
    """The currency of the prices beside it (BERTH_CURRENCY)."""

    def __init__(self) -> None:
        super().__init__(source="*", read_only=True, help_text="of the prices, by ISO 4217")

    def to_representation(self, value: Any) -> str:
        del value
        return str(settings.BERTH_CURRENCY)


PROBLEM = {
    "type": "object",
    "description": "RFC 9457 problem document; fields beside these say more.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "what programs compare"},
        "detail": {"type": "string", "description": "the sentence for people"},
        "fields": {"type": "object", "additionalProperties": True},
    },
    "required": ["type", "title", "status", "code", "detail"],
}


class BerthAutoSchema(AutoSchema):
    """Adds the problem document to each operation: one answer for every refusal."""

    def get_override_parameters(self) -> list[Any]:
        headers = {
            "POST": (
                "Idempotency-Key",
                "A repeated request with the same key and body gets the first one's answer.",
            ),
            "PATCH": ("If-Match", "The ETag that was read; refused (412) when it is outdated."),
        }
        found = list(super().get_override_parameters())
        if self.method in headers:
            name, text = headers[self.method]
            found.append(OpenApiParameter(name, str, OpenApiParameter.HEADER, description=text))
        return found

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        refusals = {
            "4XX": "Refused: the request, the right, a limit or the state does not allow it.",
            "503": "Something that is needed is down for the moment; try again later.",
        }
        for code, text in refusals.items():
            bodies.setdefault(
                code,
                {
                    "description": text,
                    "content": {
                        "application/problem+json": {
                            "schema": {"$ref": "#/components/schemas/Problem"}
                        }
                    },
                },
            )
        return bodies


def add_problem(result: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
    """Post-processing hook: put the shape itself among the components."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = PROBLEM
    return result


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
