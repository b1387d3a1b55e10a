"""The smoke run of a job: its first seconds on a small slot, before it asks for its place.

It is a job of its own that no list shows. It holds no limits: while it runs its job holds them,
and it is never larger than one replica of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction

from common.clock import now
from jobs.choices import State
from jobs.models import Job
from jobs.states import state_of
from runtime.hints import hint_uids
from runtime.protocol import Desired
from work import kinds
from work.attached import attached_to
from work.services.attachments import attach
from work.services.base import changed, step

if TYPE_CHECKING:
    from uuid import UUID

    from django.db.models import QuerySet

CPU_MILLI, MEMORY_MIB = 2000, 4096  # at most
LIMIT_MINUTES = 5  # beyond that, of one that does not end by itself
# What it has not from its job, of the fields that jobs have: it is one program, alone.
_LEAST = {
    "gpus": 0,
    "gpu_flavor": "",
    "replicas": 1,
    "retries": 0,
    "topology": "none",
    "framework": "none",
    "checkpoints": "",
    "checkpoints_to": "",
    "after_loss": "restart",
    "min_replicas": 1,
    "output": "",
    "output_credential": "",
    "parameter_servers": 0,
    "evaluator": False,
    "server_gpus": 0,
    "smoke": False,
}


def begin(row: Job) -> None:
    """Make the smoke run of a new launch, where one is wanted; that of an earlier one goes."""
    drop(row)
    if not row.smoke:
        return
    at = now()
    one = Job(
        project=row.project,
        owner=row.owner,
        name=f"smoke-{row.short_id}-{row.launch}",
        launch=1,
        asked_at=at,
        phase_since=at,
        next_reconcile_at=at,
    )
    for field in kinds.kind_of(Job.KIND).own.but("name"):
        field.write(one, _LEAST.get(field.name, field.read(row)))
    for name in ("image_digest", "made_in", "made_in_uid", "home", "queue"):
        setattr(one, name, getattr(row, name))
    one.cpu_milli = min(row.cpu_milli, CPU_MILLI)
    one.memory_mib = min(row.memory_mib, MEMORY_MIB)
    one.shm_mib = min(row.shm_mib, one.memory_mib)
    one.time_limit_minutes = LIMIT_MINUTES + settings.BERTH_SMOKE_SECONDS // 60
    one.smoke_of = row.uid
    one.save(force_insert=True)
    attach(one, attached_to(row), is_new=True)
    step(one, "accepted")
    changed(one, is_new=True)


def drop(row: Job) -> None:
    """Let its smoke runs go, with what they wrote."""
    for one in _runs(row.uid).select_for_update(of=("self",)):
        one.desired, one.ends_at = Desired.ABSENT, None
        one.generation += 1
        one.save(update_fields=["desired", "ends_at", "generation", "updated_at"])
        changed(one)


def stopping(row: Job, _reason: str) -> tuple[str, ...]:
    """A job that is told to end wants no answer of its smoke run any more."""
    if row.smoke_of is None:
        drop(row)
    return ()


def latest(row: Job) -> Job | None:
    """Return the smoke run of its latest launch; None: it has none."""
    return _runs(row.uid).select_related("project", "owner").order_by("-id").first()


def verdict(row: Job) -> bool | None:
    """Return whether its launch may go on; None: not known yet.

    One that somebody ended by hand says nothing against it.
    """
    one = latest(row) if row.smoke else None
    if one is None:
        return True
    state = state_of(one)
    return {State.SUCCEEDED: True, State.CANCELLED: True, State.FAILED: False}.get(state)


def tell(one: Job) -> None:
    """Let the job look whether it may go on, once this is committed.

    Who cancels a job locks it and then its smoke run: so who holds the smoke run must not want its
    job. Where this is lost the job looks by itself a minute later (``runtime.workload.WAIT_S``).
    """
    if (job := one.smoke_of) is not None:
        transaction.on_commit(lambda: hint_uids(Job.KIND, [job]), robust=True)


def _runs(uid: UUID) -> QuerySet[Job]:
    return Job.objects.filter(smoke_of=uid, deleted_at__isnull=True).exclude(desired=Desired.ABSENT)
