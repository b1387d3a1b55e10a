"""What the runs of a load wrote: by its driver while a run is the latest, afterwards as kept.

A process is gone with its machine and a Job with the next run, so the end of what a run wrote is
read when the engine sees its end, and kept with the run. Offsets stay those of the driver.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog
from django.utils.translation import gettext as _

from clusters.streams import PART, LogPart, log_read, log_tail
from common.errors import BerthError, NotFound
from loaders.models import LoadRun, RunLog
from runtime.workload_state import ReconcileContext

if TYPE_CHECKING:
    from loaders.models import Load
    from runtime.reconcilers import Outcome

KEPT = 64 * 1024  # of one run
log = structlog.get_logger(__name__)


def run_of(row: Load, number: int | None) -> LoadRun | None:
    """Return the latest run or the one that is named; None: it never ran."""
    runs = LoadRun.objects.filter(load=row)
    found = runs.filter(launch=number).first() if number else runs.order_by("-launch").first()
    if found is None and number:
        raise NotFound(_("There is no such run of this load, or it is not kept any more."))
    return found


def run_read(run_pk: int, *, offset: int = 0, limit: int = PART) -> LogPart:
    """Return one part of what a run wrote. Takes plain values: a stream holds no row."""
    run = LoadRun.objects.select_related("load", "log").filter(pk=run_pk).first()
    if run is None:
        return LogPart(b"", offset, offset)
    if (kept := getattr(run, "log", None)) is not None:
        return _part(kept, offset, limit)
    load = run.load
    if load.launch != run.launch or not ReconcileContext(load, load.external_ref).ensured:
        return LogPart(b"", offset, offset)  # the driver still has another run's, or none
    return log_read(load.cluster_key, str(load.uid), offset=offset, limit=limit)


def is_over(run_pk: int) -> bool:
    """Whether this run writes nothing any more."""
    return not LoadRun.objects.filter(pk=run_pk, result="", load__deleted_at=None).exists()


def last_words(row: Load, outcome: Outcome) -> LogPart | None:
    """Return the end of what a run wrote when this pass is the one that saw its end.

    Called in a step, where drivers may be asked. That it can't be read holds up no end.
    """
    ref = outcome.external_ref or {}
    ended = (
        ReconcileContext(row, dict(ref)).ended and not ReconcileContext(row, row.external_ref).ended
    )
    if not ended or not ReconcileContext(row, dict(ref)).ensured:
        return None
    try:
        return log_tail(partial(log_read, row.cluster_key, str(row.uid)), limit=KEPT)
    except BerthError as error:
        log.info("load.log_not_kept", uid=str(row.uid), error=str(error))
        return None


def keep(run: LoadRun, words: LogPart | None) -> None:
    if words is not None and words.data:
        RunLog.objects.create(run=run, start=words.offset, data=words.data)


def _part(kept: RunLog, offset: int, limit: int) -> LogPart:
    data = bytes(kept.data)
    at = min(max(offset, kept.start), kept.start + len(data))
    part = data[at - kept.start :][:limit]
    return LogPart(part, at, at + len(part))
