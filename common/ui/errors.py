"""Turns errors of services into pages, messages or htmx answers, in one place."""

from collections.abc import Callable

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
        page = render(request, template, {"error": error}, status=error.status)
        for name, value in error.headers.items():
            page[name] = value
        return page
