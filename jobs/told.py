"""Reads what programs of jobs tell of themselves, and keeps little of it (``usage.told``).

A duty of the worker reads on in what is due: what runs, with a pause that grows while nothing is
told, and once more when it has ended. What a turn reads is bounded, for all of them and for each;
who is left over comes first in the next one. A worker that is killed reads the same lines again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from django.db import transaction
from django.db.models import Q

from clusters.registry import driver_for
from clusters.services.detach import silent
from common.clock import now
from jobs.goodput import goodput_keep
from jobs.models import Job, Told
from jobs.states import OVER, state_of
from runtime.capabilities.workloads import SupportsEvents
from runtime.protocol import NotYet, Unreachable
from usage.ledger import millis
from usage.models import Interval
from usage.told import feed, is_news, read_anew

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

log = structlog.get_logger(__name__)

EVERY_S = 5.0
_AT_ONCE = 100
_LEAST_S, _MOST_S = 5, 300
_PART, _PARTS = 4 * 1024 * 1024, 4  # bytes of one launch in one turn
_TURN = 64 * 1024 * 1024  # bytes of all of them, before the next turn
_FRESH = 4 * 1024 * 1024  # a log that grows by so much is read again before its node cuts it
_MOST_BYTES = 256 * 1024 * 1024  # of what one launch tells


def due(seen: Job) -> None:
    """Have it read soon: it begins to run, ends or has ended. Inside the engine's transaction.

    ``seen``: as the engine's pass knew it. Its row may be of another cluster by now.
    """
    Told.objects.update_or_create(
        job_id=seen.pk,
        launch=seen.launch,
        defaults={"next_at": now(), "pause_s": 0, "cluster_key": seen.cluster_key},
    )


def smoke_note(one: Job, ended_at: datetime) -> None:
    """Write down when the smoke run of a launch ran; it goes with the next one.

    Once the end of the smoke run is committed: a row about its job wants that job's row, and who
    cancels the job has it and wants the smoke run. Where this is lost its time counts as waiting.
    """
    number = one.name.rpartition("-")[2]
    if one.smoke_of is None or one.started_at is None or not number.isdecimal():
        return
    if (row := Job.objects.filter(uid=one.smoke_of).first()) is None:
        return
    times = {"smoke_began_at": one.started_at, "smoke_ended_at": max(ended_at, one.started_at)}

    def note() -> None:
        Told.objects.update_or_create(job=row, launch=int(number), defaults=times)

    transaction.on_commit(note, robust=True)


def read_due() -> None:
    """Read on in all that is due; what can't be read holds up no other: no job, and no cluster."""
    rows, left = Told.objects.filter(next_at__lte=now()).order_by("next_at"), _TURN
    failed: set[str] = set()  # clusters of which a row could not be read in this turn
    for pk in list(rows.values_list("pk", flat=True)[:_AT_ONCE]):
        row = rows.filter(pk=pk).select_related("job").first()
        if row is None:
            continue  # put off with its cluster, or read by another worker
        later = now() + timedelta(seconds=_MOST_S)
        try:
            left -= _read(row)
        except Unreachable as error:
            log.info("job-events-away", cluster=row.cluster_key, error=str(error))
            away = Q(pk=row.pk)
            if row.cluster_key in failed | silent():  # else it may be its node alone
                away |= Q(next_at__lte=now(), cluster_key=row.cluster_key)
            failed.add(row.cluster_key)
            Told.objects.filter(away).update(next_at=later)
        except NotYet as error:  # its node gives none: others of its cluster are read
            log.info("job-events-later", job=str(row.job.uid), error=str(error))
            Told.objects.filter(pk=row.pk).update(next_at=later)
        except Exception:
            log.exception("job-events-unread", job=str(row.job.uid))
            Told.objects.filter(pk=row.pk).update(next_at=later)
        if left <= 0:
            return


def _read(row: Told) -> int:
    """Read on in what one launch tells; return how many bytes that took."""
    job = row.job
    over = job.launch != row.launch or state_of(job) in OVER
    held = Interval.objects.filter(uid=job.uid, launch=row.launch).first()
    row.cluster_key = row.cluster_key or (held.cluster_key if held else job.cluster_key)
    driver = driver_for(row.cluster_key)
    if not isinstance(driver, SupportsEvents) or (over and held is None):
        Told.objects.filter(pk=row.pk).update(next_at=None)
        if over:
            goodput_keep(job, row.launch)
        return 0
    began = held.placed_at or held.started_at if held else job.asked_at or job.created_at
    until = held.ended_at if held and held.ended_at else now()
    state, cursor, read, told = row.state, row.cursor, 0, 0
    if row.offset and not cursor:  # read by a version that had no cursor
        state = read_anew(state)
    for _ in range(_PARTS):
        part = driver.read_events(str(job.uid), launch=row.launch, cursor=cursor, limit=_PART)
        if part.again:
            state = read_anew(state)
        state = feed(state, part.data, begin=millis(began), until=millis(until))
        cursor, read, told = part.cursor, read + part.read, told + len(part.data)
        if not part.more:
            break
    pause = 0 if part.more or over else _pause(row, state, read)
    ends = (over and cursor == row.cursor) or row.offset + told > _MOST_BYTES
    # Unless somebody has read on meanwhile, or seen its end: then it is read once more.
    kept = Told.objects.filter(pk=row.pk, cursor=row.cursor, next_at=row.next_at).update(
        state=state,
        cursor=cursor,
        offset=row.offset + told,
        pause_s=pause,
        next_at=None if ends else now() + timedelta(seconds=pause),
    )
    if kept and ends and over:
        goodput_keep(job, row.launch)
    return read


def _pause(row: Told, state: Mapping[str, Any], read: int) -> int:
    """Return in how many seconds to look again; less often at what is silent."""
    if is_news(row.state, state):
        return _LEAST_S
    pause = min(_MOST_S, row.pause_s * 2)
    if state["at"]:  # it may tell of itself again, among much else
        pause = min(pause, row.pause_s * _FRESH // max(1, read))
    return max(_LEAST_S, pause)
