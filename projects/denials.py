"""Refusals are recorded too: who asked for what he may not have (ASVS 16.3.2, F5).

After the answer is made and in a transaction of its own, so that what was rolled back with
the refused act is not lost. Throttled per person, so that nobody floods the log.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from accounts.principal import Principal
from accounts.services.sessions import record_denied
from common.errors import BerthError, Forbidden, LimitExceeded, NotFound
from common.middleware import client_ip
from projects.models import Project


class DenialMiddleware:
    """Looks at the BerthError that became the answer (``request.berth_error``)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        error: BerthError | None = getattr(request, "berth_error", None)
        who: Principal | None = getattr(request, "principal", None)
        if error is not None and who is not None and (verb := _verb(error, request)):
            _record(request, who, verb, error)
        return response


def _verb(error: BerthError, request: HttpRequest) -> str:
    if isinstance(error, Forbidden):
        return "access.forbidden"
    if isinstance(error, LimitExceeded):
        return "limit.refused"
    match = request.resolver_match
    if isinstance(error, NotFound) and match is not None and match.kwargs:
        return "access.not-found"
    return ""


def _record(request: HttpRequest, who: Principal, verb: str, error: BerthError) -> None:
    match = request.resolver_match
    data: dict[str, Any] = {
        "method": str(request.method),
        "route": str(match.route if match else "")[:200],
        **({k: str(v)[:80] for k, v in match.kwargs.items() if k != "secret"} if match else {}),
    }
    record_denied(
        verb=verb,
        ip=client_ip(request),
        who=who,
        message=str(error.message)[:300],
        project_uid=_project_uid(match.kwargs.get("project") if match else None),
        data=data,
    )


def _project_uid(slug: str | None) -> UUID | None:
    if not slug:
        return None
    return Project.objects.filter(slug=slug).values_list("uid", flat=True).first()
