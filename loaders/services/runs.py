"""Starting a run: the first one, a resumed one, a retry, a check, a dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Conflict
from events import services as events
from loaders.choices import Task
from loaders.models import Load, LoadRun, Progress
from loaders.services.base import changed, lock, require_change, require_startable
from loaders.services.uploads import note_begun
from quotas import services as quotas
from runtime.protocol import Desired
from volumes.services.base import volume_note_use
from work import needs

if TYPE_CHECKING:
    from accounts.principal import Principal


@transaction.atomic
def load_start(*, principal: Principal, load: Load, task: Task = Task.LOAD) -> Load:
    """Run it: from the beginning, or on from where it was paused or cut off.

    A second press while it runs changes nothing.
    """
    require_change(principal, load)
    row = lock(load)
    if row.is_on_its_way and not row.goes_on:  # one that was cut off goes on now
        return row
    require_startable(principal, row)
    begin(principal, row, task=task)
    return row


@transaction.atomic
def load_resume(*, principal: Principal, load: Load) -> Load:
    """Go on with what was paused or cut off; what is there already is not read again."""
    row = lock(load)
    task = Task(row.task) if row.launch else Task.LOAD
    return load_start(principal=principal, load=row, task=task)


def load_retry_failed(*, principal: Principal, load: Load) -> Load:
    """Try again what failed in the latest run, and nothing else."""
    if not failed_last(load) and not load.is_on_its_way:
        raise Conflict(_("Nothing failed: there is nothing to try again."), code="nothing-failed")
    return load_start(principal=principal, load=load, task=Task.RETRY)


def load_verify(*, principal: Principal, load: Load) -> Load:
    """Compare what lies in the target with the manifest of what was copied."""
    _require_idle(load)
    if not load.runs.filter(task__in=[Task.LOAD, Task.RETRY]).exists():
        raise Conflict(_("Nothing was copied yet: there is nothing to check."), code="not-loaded")
    return load_start(principal=principal, load=load, task=Task.VERIFY)


def load_dry_run(*, principal: Principal, load: Load) -> Load:
    """Count what a run would copy, and copy nothing."""
    _require_idle(load)
    return load_start(principal=principal, load=load, task=Task.DRY_RUN)


def failed_last(load: Load) -> int:
    """Return how many objects failed in the latest run that copied."""
    runs = load.runs.filter(task__in=[Task.LOAD, Task.RETRY]).exclude(result="")
    return runs.order_by("-launch").values_list("files_failed", flat=True).first() or 0


def _require_idle(load: Load) -> None:
    if load.is_on_its_way:
        raise Conflict(_("It runs now: pause it, or wait until it is done."), code="running")


def begin(
    principal: Principal, row: Load, *, task: Task, scheduled: bool = False, tries: int = 0
) -> None:
    """Write the intent of a new run. The caller checked rights and holds the row's lock.

    ``tries``: which one this is in a row that nobody asked for, of a load that was cut off.
    """
    alone = scheduled or tries > 0
    row.launch += 1
    row.generation += 1
    row.desired = Desired.RUNNING
    row.task = task
    row.stop_reason = ""
    row.asked_at = now()
    row.started_at = row.stopped_at = row.retry_at = None
    row.tries = tries
    note_begun(row, task)
    _forget_progress(row)
    row.save()
    LoadRun.objects.create(
        load=row,
        launch=row.launch,
        task=task,
        started_by=None if alone else principal.user,
        scheduled=scheduled,
        asked_at=row.asked_at,
    )
    reserve(principal, row)
    volume_note_use(uids=[row.volume.uid], user=row.owner)
    events.record(
        actor=None if alone else principal,
        verb="load.started",
        target=row,
        project_uid=row.project.uid,
        data={"run": row.launch, "task": task.value, "scheduled": scheduled, "tries": tries},
    )
    needs.changed([row.uid])
    changed(row)


def reserve(principal: Principal, row: Load) -> None:
    """Hold what it takes of the limits, in the transaction of the intent."""
    quotas.reserve(
        principal=principal,
        project=row.project,
        owner=row.owner,
        uid=row.uid,
        amounts={"cpu_milli": row.cpu_milli, "memory_mib": row.memory_mib},
        launch=row.launch,
    )


def _forget_progress(row: Load) -> None:
    """What the run before this one counted stands in its history."""
    for field in Progress._meta.get_fields():  # noqa: SLF001 - Django's public way to columns
        name = field.name
        if name != "manifest":
            setattr(row, name, _default(field))
    row.result = row.result_code = row.result_message = ""
    row.stage = ""
    row.rate_bytes_s = row.concurrency = row.seq = 0
    row.eta_s = row.reported_at = row.final = None


def _default(field: Any) -> Any:
    return field.get_default()
