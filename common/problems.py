"""The one error shape of the API: RFC 9457 problem documents with ``code`` and ``fields``."""

from collections.abc import Mapping
from typing import Any

CONTENT_TYPE = "application/problem+json"


def problem_body(
    status: int,
    code: str,
    detail: object,
    *,
    fields: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the document; ``code`` is what programs compare, ``detail`` is for people."""
    body: dict[str, Any] = {
        "type": f"urn:berth:error:{code}",
        "title": code.replace("-", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": str(detail),
    }
    if fields:
        body["fields"] = dict(fields)
    body.update(extra or {})
    return body
