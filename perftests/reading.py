"""Reads what tests have printed once their jobs are over.

Rows are the only memory: a worker that is killed reads again, and writes the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from django.db import transaction
from django.utils.translation import gettext as _

from clusters.models import Node
from clusters.options import options_of
from clusters.registry import row_for
from clusters.streams import log_read
from common.clock import now
from common.errors import Conflict, Unavailable
from events import services as events
from jobs import choices as jobs
from jobs.models import Replica
from jobs.states import OVER, state_of
from perftests.choices import State
from perftests.models import PerfTest
from perftests.rules import printed
from runtime.protocol import Desired
from usage.models import Interval

if TYPE_CHECKING:
    from jobs.models import Job

log = structlog.get_logger(__name__)
MOST = 1024 * 1024  # of a log
EVERY_S = 3.0
_ENDS = {jobs.State.FAILED: State.FAILED, jobs.State.CANCELLED: State.STOPPED}


def turn() -> None:
    """Look at every test that is not over; one that can't be read holds up no other."""
    rows = PerfTest.objects.filter(state=State.RUNNING).select_related("job__project", "project")
    for row in rows:
        try:
            look(row)
        except Exception:
            log.exception("perftest-turn", perftest=str(row.uid))


def look(row: PerfTest) -> None:
    """Write down how a test ended, once its job is over."""
    job = row.job
    if job is None or job.desired == Desired.ABSENT or job.deleted_at is not None:
        _end(row, State.STOPPED, _("Its job was deleted before it ended."))
        return
    state = state_of(job)
    if state not in OVER:
        return
    _place(row, job)
    if state in _ENDS:
        said = _("Its job failed: the log says why.") if state == jobs.State.FAILED else ""
        _end(row, _ENDS[state], said)
        return
    try:
        row.backend, row.lines = printed(_log(job))
    except Unavailable:
        return  # asked again
    except Conflict as error:
        _end(row, State.FAILED, error.message)
        return
    if not row.lines:
        _end(row, State.FAILED, _("Its program ended well and printed no result: look at its log."))
    elif wrong := sum(line.get("wrong", 0) for line in row.lines):
        said = _("%(n)d results of the operation were wrong: the network or a GPU garbles data.")
        _end(row, State.FAILED, said % {"n": wrong})
    else:
        _end(row, State.SUCCEEDED, "")


def _log(job: Job) -> str:
    found = b""
    while len(found) < MOST:
        part = log_read(job.cluster_key, str(job.uid), offset=len(found))
        if not part.data or part.next_offset <= len(found):
            break
        found += part.data
    return found.decode(errors="replace")


def _place(row: PerfTest, job: Job) -> None:
    """Note where it ran: the cluster, the kind of GPU, the nodes, and the parts they stand in."""
    replicas = Replica.objects.filter(job=job, launch=job.launch).exclude(node="")
    held = Interval.objects.filter(uid=job.uid, launch=job.launch).first()
    row.cluster_key = job.cluster_key
    row.flavor = (held.flavor if held else "") or job.gpu_flavor
    row.nodes = sorted(set(replicas.values_list("node", flat=True)))
    cluster = row_for(job.cluster_key)
    labels = Node.objects.filter(cluster__key=job.cluster_key, name__in=row.nodes)
    of_nodes = list(labels.values_list("labels", flat=True))
    for level, label in options_of(cluster.options).levels.items():
        if names := sorted({one[label] for one in of_nodes if label in one}):
            row.spread[level] = names


@transaction.atomic
def _end(row: PerfTest, state: str, message: str) -> None:
    held = PerfTest.objects.select_for_update().get(pk=row.pk)
    if held.state != State.RUNNING:
        return
    row.state, row.message, row.ended_at = state, message[:500], now()
    row.save()
    events.record(
        actor=None,
        verb="perftest.ended",
        target=row,
        project_uid=row.project.uid,
        data={"state": state},
    )
