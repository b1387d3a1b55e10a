"""OpenAPI: every operation also documents what it answers when it says no."""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

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
