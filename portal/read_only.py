"""Read-only while the portal's disk is full: one sentence instead of half-written work (E18)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from common import disk
from common.problems import CONTENT_TYPE, problem_body

_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "DELETE"})
# Signing in and out, and what workspaces and loads say of themselves: they go on.
_GOES_ON = ("/accounts/", "/hub/", "/i18n/")
# Acts that end something: they are how room is made.
_ENDS = frozenset(
    {"stop", "cancel", "pause", "end", "delete", "remove", "revoke", "archive", "logout"}
)


def needs_room(request: HttpRequest) -> bool:
    """Whether the request may begin or change something."""
    if request.method in _SAFE or request.path.startswith(_GOES_ON):
        return False
    return request.path.rstrip("/").rpartition("/")[2] not in _ENDS


class ReadOnlyMiddleware:
    """Refuses what begins or changes something while the disk is short, and says so of a
    database that ran out of it.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if needs_room(request) and disk.is_short():
            return refused(request)
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        return refused(request) if disk.is_disk_full(error) else None


def refused(request: HttpRequest) -> HttpResponse:
    error = disk.DiskFull()
    if request.path.startswith("/api/"):
        body: Any = problem_body(error.status, error.code, error.message)
        return JsonResponse(body, status=error.status, content_type=CONTENT_TYPE)
    partial = "_" if getattr(request, "htmx", False) else ""
    return render(request, f"errors/{partial}problem.html", {"error": error}, status=error.status)
