"""Where a running load tells how far it is: on the listener for workloads, and nowhere else."""

from __future__ import annotations

import re
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse

from common.errors import Forbidden, NotFound
from hubapi import services
from hubapi.api import body_json, hub_api
from loaders.reports import MAX_NUMBER, PURPOSE, parse, report_store

MAX_BODY = 256 * 1024  # fifty errors with keys of a thousand bytes
_TOKEN = re.compile(r"\ABearer ([A-Za-z0-9_-]{43})\Z")


@hub_api("POST")
def report(request: HttpRequest, load: UUID) -> HttpResponse:
    """Take one report of the launch whose token it carries."""
    if request.META.get("SERVER_PORT") != str(settings.BERTH_INTERNAL_PORT):
        raise NotFound("There is nothing here.")
    body = body_json(request, limit=MAX_BODY)
    launch = body.get("launch")
    match = _TOKEN.match(request.headers.get("Authorization", ""))
    # The token is derived from both: a stranger learns nothing, whether the load exists or not.
    if (
        match is None
        or type(launch) is not int
        or not 0 < launch <= MAX_NUMBER
        or not services.matches(PURPOSE, load, launch, match[1])
    ):
        raise Forbidden("This token is not valid here.")
    return JsonResponse({"kept": report_store(load, parse(body))})
