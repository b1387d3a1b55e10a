"""Beginning a performance test, choosing a baseline, removing a result."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from common.errors import Conflict, wrong
from common.ids import new_uid
from events import services as events
from jobs.kind import JOB
from jobs.packages import PREFIX, package_keep
from perftests import programs, rules
from perftests.choices import State
from perftests.models import PerfTest
from placement.clusters import clusters_of
from projects.access import Permission, project_enter
from work.services import workload_create

if TYPE_CHECKING:
    from accounts.principal import Principal
    from jobs.models import Job
    from projects.models import Project

MIB_WITH_GPUS, MIB_WITHOUT = 512, 16  # the largest size, where none is said
LIMIT_MINUTES = 30
_CPU_MILLI, _MEMORY_MIB = 1000, 1024  # of a replica without GPUs
_PER_GPU_CPU_MILLI, _PER_GPU_MEMORY_MIB = 4000, 16 * 1024
BESIDE = ("name", "image", "environment", "cluster", "pool", "gpu_flavor", "topology", "framework")


def perftest_create(*, principal: Principal, project: Project, said: Mapping[str, Any]) -> PerfTest:
    """Begin a test: the job that measures, and the row that waits for what it prints."""
    variables = dict(said.get("variables") or {})
    rules.require_variables(variables)
    project_enter(principal, project.slug, Permission.JOB_CREATE)
    replicas, gpus = said["replicas"], said["gpus"]
    if replicas * max(gpus, 1) == 1:
        raise wrong("replicas", _("One alone sends nothing: take two replicas, or two GPUs."))
    max_mib = said.get("max_mib") or (MIB_WITH_GPUS if gpus else MIB_WITHOUT)
    beside = {name: said[name] for name in BESIDE if said.get(name)}
    if not (beside.get("image") or beside.get("environment")) and settings.BERTH_PERFTEST_IMAGE:
        wanted = [c for c in clusters_of(project) if beside.get("cluster") in (None, c.key)]
        if any(one.runs_images for one in wanted):
            beside["image"] = settings.BERTH_PERFTEST_IMAGE
    uid = new_uid()
    name = beside.pop("name", "") or f"{said['test']}-{replicas}x{gpus or 'cpu'}-{uid.hex[-5:]}"
    words = {"test": said["test"], "replicas": replicas, "gpus": gpus, "max-mib": max_mib}
    package = package_keep(
        principal=principal, project=project, stream=io.BytesIO(programs.package())
    )
    job: dict[str, Any] = {
        "name": name,
        "code": f"{PREFIX}{package.sha256}",
        "command": ["python3", programs.NAME],
        "args": [word for key, value in words.items() for word in (f"--{key}", str(value))],
        "env": variables,
        "replicas": replicas,
        "gpus": gpus,
        "cpu_milli": gpus * _PER_GPU_CPU_MILLI or _CPU_MILLI,
        "memory_mib": gpus * _PER_GPU_MEMORY_MIB or _MEMORY_MIB,
        "time_limit_minutes": LIMIT_MINUTES,
        **beside,
    }
    made: list[PerfTest] = []

    def keep(row: Job) -> None:
        one = PerfTest(uid=uid, project=project, owner=principal.user, name=row.name, job=row)
        one.test, one.replicas, one.gpus = said["test"], replicas, gpus
        one.max_mib, one.variables, one.said = max_mib, variables, beside
        one.save(force_insert=True)
        made.append(one)
        events.record(actor=principal, verb="perftest.started", target=one, project_uid=project.uid)

    workload_create(principal=principal, project=project, kind=JOB, said=job, beside=keep)
    return made[0]


def perftest_again(*, principal: Principal, row: PerfTest) -> PerfTest:
    """Measure the same once more, as a test of its own."""
    names = ("test", "replicas", "gpus", "max_mib", "variables")
    said = {**row.said, **{name: getattr(row, name) for name in names}}
    return perftest_create(principal=principal, project=row.project, said=said)


@transaction.atomic
def baseline_choose(*, principal: Principal, row: PerfTest) -> PerfTest:
    """Compare tests of the same shape with this one from now on."""
    project_enter(principal, row.project.slug, Permission.JOB_CREATE)
    list(PerfTest.objects.select_for_update().filter(project=row.project).values_list("pk"))
    row.refresh_from_db()
    if row.state != State.SUCCEEDED:
        raise Conflict(_("Only what ended well can be a baseline."), code="not-measured")
    if row.is_baseline:
        return row
    like_it(row).filter(is_baseline=True).update(is_baseline=False)
    row.is_baseline = True
    row.save(update_fields=["is_baseline"])
    verb = "perftest.baseline-chosen"
    events.record(actor=principal, verb=verb, target=row, project_uid=row.project.uid)
    return row


@transaction.atomic
def perftest_delete(*, principal: Principal, row: PerfTest) -> None:
    """Remove a result; its job stays. What still runs is cancelled first, by its job."""
    mine = principal.user.pk == row.owner_id
    wanted = Permission.JOB_CREATE if mine else Permission.JOB_MANAGE
    project_enter(principal, row.project.slug, wanted)
    row = PerfTest.objects.select_for_update().get(pk=row.pk)
    if row.state == State.RUNNING:
        raise Conflict(_("It has not ended: cancel its job first."), code="running")
    events.record(actor=principal, verb="perftest.deleted", target=row, project_uid=row.project.uid)
    row.delete()


def like_it(row: PerfTest) -> Any:
    """Return the tests that can be compared with it."""
    shape = {name: getattr(row, name) for name in PerfTest.SHAPE}
    return PerfTest.objects.filter(**shape).exclude(pk=row.pk)
