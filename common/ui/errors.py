"""Turns errors of services into pages, messages or htmx answers, in one place."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from common.errors import BerthError


class BerthErrorMiddleware:
    """A BerthError that leaves an HTML view becomes a page with its sentence and status."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, BerthError):
            return None
        request.berth_error = error  # type: ignore[attr-defined]  # projects.denials records it
        partial = "_" if getattr(request, "htmx", False) else ""
        template = f"errors/{partial}problem.html"
        page = render(request, template, frame(request, error), status=error.status)
        for name, value in error.headers.items():
            page[name] = value
        return page


def frame(request: HttpRequest, error: BerthError) -> dict[str, Any]:
    """Return the context of an error's page.

    Who is signed in keeps the rail and the project; the faults of the portal itself need
    nothing of it, not even its database.
    """
    signed_in = getattr(request, "principal", None) is not None
    is_fault = error.status >= 500  # noqa: PLR2004 - HTTP
    return {
        "error": error,
        "layout": "base.html" if signed_in and not is_fault else "base_auth.html",
    }
