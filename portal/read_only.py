"""Read-only while the portal's disk is full: one sentence instead of half-written work (E18).

Asked of the route, never of the path: names in a path are what people choose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from common import disk
from common.errors import CONTENT_TYPE, problem_body

_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "DELETE"})
# Signing in and out, and what workspaces and loads say of themselves: they go on.
_GOES_ON = ("/accounts/", "/hub/")
# Acts that end something, by the last word of their route's name: they are how room is made.
ENDS = frozenset(
    {"archive", "cancel", "delete", "detach", "end", "forget", "leave", "logout", "pause", "purge"}
    | {"remove", "revoke", "stop", "unshare", "withdraw"}
)
# The names of others that go on: looking into volumes, where files are deleted; keeping what runs;
# and what can't wait for room because it keeps somebody out, or lets the one in who makes room.
NAMES = frozenset(
    {"api-volume-files", "files:session", "notebooks:extend", "api-workspace-extend"}
    | {"api-job-extend"}
    | {"projects-api:kube-token", "accounts:sessions-end-others", "api-user"}
    | {"console:user-password", "console:user-role", "console:user-sessions", "console:user-state"}
    | {"accounts:device-answer", "api-auth-device", "api-auth-device-token"}
)


def needs_room(request: HttpRequest) -> bool:
    """Whether the request may begin or change something."""
    match = request.resolver_match
    if match is None or request.method in _SAFE or request.path.startswith(_GOES_ON):
        return False
    ends = (match.url_name or "").rpartition("-")[2] in ENDS
    return not ends and match.view_name not in NAMES


class ReadOnlyMiddleware:
    """Refuses what begins or changes something while the disk is short, and says so of a
    database that ran out of it.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        disk.give_back()  # reading writes too: sessions, the journal of the database
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, _view: Any, _args: Any, _kwargs: Any
    ) -> HttpResponse | None:
        if not needs_room(request) or not disk.is_short():
            return None
        if request.path.startswith("/api/"):
            # The API learns who calls only in its view: strangers are told that they are, no more.
            request.short_of_room = True  # type: ignore[attr-defined]
            return None
        return refused(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        return refused(request) if disk.is_disk_full(error) else None


def refused(request: HttpRequest) -> HttpResponse:
    error = disk.DiskFull()
    if request.path.startswith("/api/"):
        body: Any = problem_body(error.status, error.code, error.message)
        return JsonResponse(body, status=error.status, content_type=CONTENT_TYPE)
    partial = "_" if getattr(request, "htmx", False) else ""
    return render(request, f"errors/{partial}problem.html", {"error": error}, status=error.status)
