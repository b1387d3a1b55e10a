"""Where the program of a job tells how a notebook or a smoke run went: on the listener for
workloads, and nowhere else.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse

from common.errors import Conflict, Invalid
from common.hooks import Hook
from hubapi.api import hub_api
from jobs.code import launch_of
from jobs.models import Job, NotebookResult
from jobs.runtime_spec import PURPOSE
from runtime.bus import publish
from runtime.protocol import Desired
from work.services.base import topics

if TYPE_CHECKING:
    from uuid import UUID

MAX_BODY = 6 << 20
MAX_FAILURE = 6000
# What a program tells an app above (``jobs.runtime_spec.reports_of``), as it says it.
told_of: Hook[[Job, Mapping[str, Any]], None] = Hook()
_GZIP = b"\x1f\x8b"


@hub_api("POST")
def report(request: HttpRequest, job: UUID) -> HttpResponse:
    """Keep what the launch whose token it carries says of itself; it decides nothing else."""
    launch = launch_of(request, job, PURPOSE)
    told = _body(request)
    with transaction.atomic():
        row = (
            Job.objects.select_for_update(of=("self",))
            .select_related("project", "owner")
            .filter(uid=job, launch=launch, deleted_at__isnull=True)
            .exclude(desired=Desired.ABSENT)
            .first()
        )
        if row is None:
            raise Conflict("There is a newer launch, or none.")
        row.failure = told["failure"]
        row.save(update_fields=["failure"])
        if told["told"]:
            told_of(row, told["told"])
        if told["page"]:
            values = {"launch": launch, "name": told["name"], "page": told["page"]}
            NotebookResult.objects.update_or_create(job=row, defaults=values)
        publish(topics(row), {"kind": row.kind, "id": row.short_id, "uid": str(row.uid)})
    return JsonResponse({"kept": True})


def _body(request: HttpRequest) -> dict[str, Any]:
    """Return what is said, each part bounded; a page is larger than a form may be."""
    data = request.read(MAX_BODY + 1)
    if len(data) > MAX_BODY:
        raise Invalid("The body is too large.")
    try:
        told = json.loads(data)
        page = base64.b64decode(str(told.get("page") or ""), validate=True)
    except (ValueError, RecursionError, AttributeError, binascii.Error) as error:
        raise Invalid("The body is not what is reported.") from error
    if page and not page.startswith(_GZIP):
        raise Invalid("The page is not packed.")
    failure, name = (  # half a character can't be kept
        str(told.get(key) or "").encode(errors="replace").decode() for key in ("failure", "name")
    )
    return {
        "failure": failure.replace("\0", "")[:MAX_FAILURE],
        "name": name.replace("\0", "")[-255:],
        "page": page,
        "told": told["told"] if isinstance(told.get("told"), dict) else {},
    }
