"""The files of a volume over HTTP: who may, then carried. What the acts are: docs/dev/files.md."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from starlette.requests import Request
from starlette.responses import Response

from common import disk
from common.errors import Invalid, NotFound
from common.streams import look
from gate.access import Demand
from gate.denials import admitted
from gate.piped import Piped
from gate.volumes.access import VolumeTarget, note_deleted, note_written, volume_target
from gate.volumes.carrying import back, contents
from gate.web import BODIES, SAFE, caller_of
from volumes.backing import lies_here

if TYPE_CHECKING:
    from gate.callers import Caller
    from gate.service import Gate

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_TO_READ = frozenset({"count", "selection"})  # asked by POST because a list is long
_WRITTEN = frozenset({"file", "copy", "delete", "extract", "restore", "uploads"})
_GROWS = frozenset({"copy", "extract", "mkdir", "uploads"})
MEASURED_EVERY_S = 60.0


async def serve(request: Request, gate: Gate) -> Response:
    caller = await caller_of(request)
    uid, act = request.path_params["volume"], request.path_params["act"]
    first = act.partition("/")[0]
    if ".." in act or not act.replace("/", "").isalnum():
        raise NotFound(_("There is no such act."))
    reads = request.method in SAFE or first in _TO_READ
    demand = Demand.READ if reads else Demand.CHANGE
    if request.method in BODIES and not request.headers.get("content-length", "").isdecimal():
        raise Invalid(_("Say how long the request is (Content-Length)."), code="no-length")
    target = await admitted(caller, "volume-files", uid, lambda: volume_target(caller, uid, demand))
    if _takes_room(request.method, act):
        await _require_room(uid, int(request.headers["content-length"]))
    stack = AsyncExitStack()
    try:
        stream = await stack.enter_async_context(
            gate.guard.hold("volume-files", caller, target, demand)
        )
        answer = await gate.carrier.carry(request, target, act, stream)
        stack.push_async_callback(answer.aclose)
        if not reads and first in _WRITTEN:
            await _note(caller, target, first)
    except BaseException:
        await stack.aclose()
        raise
    made = Piped(
        stack,
        stream,
        contents(answer),
        media_type=answer.headers.get("content-type", "application/octet-stream"),
        headers=back(answer),
    )
    made.status_code = answer.status_code
    return made


def _takes_room(method: str, act: str) -> bool:
    """Whether it writes; what is deleted, put back, renamed or finished takes none to speak of."""
    return method in {"PUT", "PATCH"} or (method == "POST" and act in _GROWS)


async def _require_room(uid: str, coming: int) -> None:
    """Leave the portal's own disk the room that it needs for what runs."""
    # in a thread: a disk that is asked for its room may take its time
    if await look(lambda: disk.is_short(coming=coming) and lies_here(uid)):
        raise disk.DiskFull


_measured: dict[str, float] = {}


async def _note(caller: Caller, target: VolumeTarget, act: str) -> None:
    """Deletions are history; after any writing the volume is measured anew, now and then."""
    if act == "delete":
        await look(lambda: note_deleted(caller, target.short_id))
    at = time.monotonic()
    if at - _measured.get(target.short_id, -MEASURED_EVERY_S) < MEASURED_EVERY_S:
        return
    if len(_measured) > 10_000:  # noqa: PLR2004 - volumes written to since the start
        _measured.clear()
    _measured[target.short_id] = at
    note_written(target.short_id)
