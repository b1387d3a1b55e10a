"""Reads what programs of jobs tell of themselves, and keeps little of it (``usage.told``).

A duty of the worker reads on in what is due: what runs, with a pause that grows while nothing is
told, and once more when it has ended. A worker that is killed reads the same lines again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from django.db import transaction

from clusters.registry import driver_for
from common.clock import now
from jobs.models import Job, Told
from jobs.states import OVER, state_of
from runtime.capabilities import SupportsEvents
from runtime.protocol import DriverError, Unreachable
from usage.ledger import millis
from usage.models import Interval
from usage.told import feed, read_anew

if TYPE_CHECKING:
    from datetime import datetime

log = structlog.get_logger(__name__)

EVERY_S = 5.0
_AT_ONCE = 100
_LEAST_S, _MOST_S = 5, 300
_PART, _PARTS = 256 * 1024, 16  # of one launch in one turn
_MOST_BYTES = 256 * 1024 * 1024  # of one launch


def due(row: Job, launch: int) -> None:
    """Have it read soon: it begins to run, or has ended. Inside the engine's transaction."""
    Told.objects.update_or_create(
        job_id=row.pk, launch=launch, defaults={"next_at": now(), "pause_s": 0}
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
    rows = Told.objects.filter(next_at__lte=now()).order_by("next_at")
    for pk in list(rows.values_list("pk", flat=True)[:_AT_ONCE]):
        row = rows.filter(pk=pk).select_related("job").first()
        if row is None:
            continue  # put off with its cluster, or read by another worker
        later = now() + timedelta(seconds=_MOST_S)
        try:
            _read(row)
        except Unreachable as error:  # all of its cluster is asked again later
            log.info("job-events-away", cluster=row.job.cluster_key, error=str(error))
            Told.objects.filter(next_at__lte=now(), job__cluster_key=row.job.cluster_key).update(
                next_at=later
            )
        except Exception:
            log.exception("job-events-unread", job=str(row.job.uid))
            Told.objects.filter(pk=row.pk).update(next_at=later)


def read_before(row: Job) -> None:
    """Read the end of the launch before, whose lines may go when the next one begins."""
    unread = Told.objects.filter(job=row, launch__lt=row.launch, next_at__isnull=False)
    for one in unread.select_related("job"):
        try:
            _read(one)
        except DriverError:
            continue


def _read(row: Told) -> None:
    job = row.job
    over = job.launch != row.launch or state_of(job) in OVER
    held = Interval.objects.filter(uid=job.uid, launch=row.launch).first()
    driver = driver_for(held.cluster_key if held else job.cluster_key)  # the job may have moved
    if not isinstance(driver, SupportsEvents) or (over and held is None):
        Told.objects.filter(pk=row.pk).update(next_at=None)
        return
    began = held.placed_at or held.started_at if held else job.asked_at or job.created_at
    until = held.ended_at if held and held.ended_at else now()
    state, offset, more = row.state, row.offset, False
    for _ in range(_PARTS):
        data, following = driver.read_events(
            str(job.uid), launch=row.launch, offset=offset, limit=_PART
        )
        if following < offset:  # another pod of it, or a log of which the beginning is gone
            state, offset = read_anew(state), 0
            continue
        whole = data if over and following == offset + len(data) < offset + _PART else _lines(data)
        if not whole:
            break
        state, more = feed(state, whole, begin=millis(began), until=millis(until)), True
        offset = following - (len(data) - len(whole))
    is_news = state.get("at") != row.state.get("at")
    pause = _LEAST_S if is_news else min(_MOST_S, max(_LEAST_S, row.pause_s * 2))
    ends = (over and not more) or offset > _MOST_BYTES
    # Unless somebody has read on meanwhile, or seen its end: then it is read once more.
    Told.objects.filter(pk=row.pk, offset=row.offset, next_at=row.next_at).update(
        state=state,
        offset=offset,
        pause_s=pause,
        next_at=None if ends else now() + timedelta(seconds=0 if over else pause),
    )


def _lines(data: bytes) -> bytes:
    """Return what is whole of it; of one line that never ends, all: it is none of an event."""
    cut = data.rfind(b"\n") + 1
    return data[:cut] if cut or len(data) < _PART else data
