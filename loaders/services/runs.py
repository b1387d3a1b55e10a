"""Starting a run: the first one, a resumed one, a retry, a check, a dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.principal import Principal
from clusters.options import options_of
from clusters.usable import launch_check
from clusters.where import image_cluster
from common.clock import now
from common.errors import Conflict
from credentials.selectors import credential_for_use
from events import services as events
from loaders.choices import Task
from loaders.models import Load, LoadRun, Progress
from loaders.services.uploads import note_begun
from projects.access import Permission, permissions_of
from projects.services.life import require_active
from runtime.protocol import Desired, Phase
from volumes.selectors import require_room, volume_for_use
from volumes.services.base import volume_note_use, volumes_hold
from work.selectors import is_owner
from work.services.base import changed, lock, own
from work.services.launch import reserve

if TYPE_CHECKING:
    from projects.models import Project


@transaction.atomic
def load_start(*, principal: Principal, row: Load, task: Task = Task.LOAD) -> Load:
    """Run it: from the beginning, or on from where it was paused or cut off.

    A second press while it runs changes nothing.
    """
    own(principal, row)
    row = lock(row)
    if row.is_on_its_way and not row.goes_on:  # one that was cut off goes on now
        return row
    require_runnable(principal, row)
    begin(principal, row, task=task)
    changed(row)
    return row


@transaction.atomic
def load_resume(*, principal: Principal, row: Load) -> Load:
    """Go on with what was paused or cut off; what is there already is not read again."""
    row = lock(row)
    task = Task(row.task) if row.launch else Task.LOAD
    return load_start(principal=principal, row=row, task=task)


def load_retry_failed(*, principal: Principal, row: Load) -> Load:
    """Try again what failed in the latest run, and nothing else."""
    if not failed_last(row) and not row.is_on_its_way:
        raise Conflict(_("Nothing failed: there is nothing to try again."), code="nothing-failed")
    return load_start(principal=principal, row=row, task=Task.RETRY)


def load_verify(*, principal: Principal, row: Load) -> Load:
    """Compare what lies in the target with the manifest of what was copied."""
    _require_idle(row)
    if not row.runs.filter(task__in=[Task.LOAD, Task.RETRY]).exists():
        raise Conflict(_("Nothing was copied yet: there is nothing to check."), code="not-loaded")
    return load_start(principal=principal, row=row, task=Task.VERIFY)


def load_dry_run(*, principal: Principal, row: Load) -> Load:
    """Count what a run would copy, and copy nothing."""
    _require_idle(row)
    return load_start(principal=principal, row=row, task=Task.DRY_RUN)


def failed_last(row: Load) -> int:
    """Return how many objects failed in the latest run that copied."""
    runs = row.runs.filter(task__in=[Task.LOAD, Task.RETRY]).exclude(result="")
    return runs.order_by("-launch").values_list("files_failed", flat=True).first() or 0


def _require_idle(row: Load) -> None:
    if row.is_on_its_way:
        raise Conflict(_("It runs now: pause it, or wait until it is done."), code="running")


def require_runnable(who: Principal, row: Load, task: Task = Task.LOAD) -> None:
    """Raise unless the load may run now: for whoever asks, and as its owner, as whom it runs.

    In the transaction of the start: nothing puts its volume back, removes it or hands it over
    before that ends.
    """
    volumes_hold([row.volume])
    require_active(row.project)
    if not is_owner(who, row):
        owner = Principal(user=row.owner)
        if Permission.LOAD_CREATE not in permissions_of(owner, row.project):
            raise Conflict(
                _("It runs as %(owner)s, who may not load data in this project any more.")
                % {"owner": row.owner.label},
                code="owner-left",
            )
        _require_parts(owner, row, task)
    _require_parts(who, row, task)
    require_cluster(row.cluster_key, row.project)


def _require_parts(who: Principal, row: Load, task: Task) -> None:
    clears = task == Task.CLEAR  # no store is asked, and no room taken
    if row.credential is None and not row.anonymous and not clears:
        raise Conflict(
            _("Its credential was removed. Choose another one in its settings."),
            code="credential-gone",
        )
    if row.credential is not None and not clears:
        credential_for_use(who, row.project, row.credential.uid)
    # an export writes too: what it remembers lies in the volume
    volume = volume_for_use(who, row.project, row.volume.uid, write=True, even_full=clears)
    if row.direction == "in" and not clears:
        require_room(volume)


def require_cluster(cluster_key: str, project: Project) -> None:
    """Raise Conflict where no load can run."""
    launch_check(cluster_key, project.uid)
    cluster = image_cluster(cluster_key)
    if cluster is not None and not options_of(cluster.options).data_image:
        raise Conflict(
            _("On this cluster no data can be loaded yet: its operator names the image for it."),
            code="no-data-image",
        )


def begin(
    principal: Principal, row: Load, *, task: Task, scheduled: bool = False, tries: int = 0
) -> None:
    """Write the intent of a new run. The caller checked rights and holds the row's lock, and tells
    of the change.

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
    reserve(principal, row, {"cpu_milli": row.cpu_milli, "memory_mib": row.memory_mib})
    volume_note_use(uids=[row.volume.uid], user=row.owner)
    events.record(
        actor=None if alone else principal,
        verb="load.started",
        target=row,
        project_uid=row.project.uid,
        data={"run": row.launch, "task": task.value, "scheduled": scheduled, "tries": tries},
    )


def rest(row: Load) -> None:
    """Leave one that was just made as it is: nobody asked for a run."""
    row.desired, row.phase = Desired.STOPPED, Phase.STOPPED
    row.save(update_fields=["desired", "phase", "updated_at"])


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
