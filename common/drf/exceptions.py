"""Every error leaves the API as a problem document (``common.problems``)."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.utils.translation import gettext as _
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import exception_handler as drf_handler

from common.database import said_of
from common.errors import BerthError
from common.problems import CONTENT_TYPE, problem_body


def problem(
    status_code: int,
    code: str,
    detail: str,
    *,
    fields: dict[str, Any] | None = None,
    extra: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    body = problem_body(status_code, code, detail, fields=fields, extra=extra)
    return Response(body, status=status_code, headers=headers, content_type=CONTENT_TYPE)


def problem_handler(  # noqa: PLR0911 - one line per kind of error
    error: Exception, context: dict[str, Any]
) -> Response | None:
    """DRF's exception handler: every error leaves the API in this shape."""
    error = said_of(error) or error
    if isinstance(error, BerthError):
        if request := context.get("request"):
            request._request.berth_error = error  # noqa: SLF001 - projects.denials records it
        return problem(
            error.status,
            error.code,
            str(error.message),
            fields=error.fields,
            extra=error.extra,
            headers=error.headers,
        )
    if isinstance(error, Http404):
        return problem(404, "not-found", _("There is nothing here, or it is not yours."))
    if isinstance(error, PermissionDenied):
        return problem(403, "forbidden", _("You may not do this."))
    response = drf_handler(error, context)
    if response is None:
        return None
    kept = {"WWW-Authenticate", "Retry-After"}
    headers = {k: v for k, v in response.headers.items() if k in kept}
    if isinstance(error, exceptions.ValidationError):
        return problem(
            status.HTTP_400_BAD_REQUEST,
            "invalid",
            _("Some fields are not right."),
            fields=_fields(error.detail),
        )
    if isinstance(error, exceptions.APIException):
        code = str(getattr(error, "default_code", "error")).replace("_", "-")
        return problem(response.status_code, code, str(error.detail), headers=headers)
    return response


def _fields(detail: Any) -> dict[str, Any]:
    return detail if isinstance(detail, dict) else {"non_field_errors": detail}
