"""What is told of a wait among 10,000 that wait, and a page of the list of them."""

from __future__ import annotations

import os
import tempfile
from datetime import timedelta
from typing import Any
from uuid import uuid4

from benchmarks.lib import Result, sized, timed

WAITING, PROJECTS, DEVICES = sized(10_000, 400), 200, 16


def setup() -> None:
    os.environ["BERTH_VAR"] = tempfile.mkdtemp(prefix="berth-waits-")
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings.test"
    os.environ["BERTH_TEST_DATABASE_URL"] = f"sqlite:///{os.environ['BERTH_VAR']}/waits.sqlite3"
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def fill() -> tuple[Any, Any]:
    """Return somebody and their work in the middle of the line."""
    from accounts.models import User
    from accounts.principal import Principal
    from clusters.models import Claim, Cluster, Device, Flavor, Hold
    from common.clock import now
    from jobs.models import Job
    from projects.models import Membership, Project
    from queues.models import Turn
    from tests.support.workloads import insert

    at = now() - timedelta(hours=2)
    users = User.objects.bulk_create(
        [User(username=f"u{i}", email=f"u{i}@example.org") for i in range(PROJECTS)]
    )
    projects = Project.objects.bulk_create(
        [Project(slug=f"p{i}", name=f"P {i}", phase="running") for i in range(PROJECTS)]
    )
    Membership.objects.bulk_create(
        [Membership(project=p, user=u, role="owner") for p, u in zip(projects, users, strict=True)]
    )
    capacity = {"cpu_milli": 256_000, "memory_mib": 1_000_000}
    cluster, _made = Cluster.objects.update_or_create(
        key="local", defaults={"capacity": capacity, "checked_at": now(), "reachable": True}
    )
    kinds = [
        Flavor.objects.get_or_create(name=name, defaults={"label": name.upper()})[0]
        for name in ("h100", "a100")
    ]
    devices = Device.objects.bulk_create(
        Device(cluster=cluster, uuid=f"GPU-{n}", index=n, name="H100", flavor=kinds[n % 2])
        for n in range(DEVICES)
    )

    def claim(n: int, **more: Any) -> Claim:
        return Claim(
            cluster=cluster,
            workload_uid=uuid4(),
            workload_kind="job",
            project_uid=projects[n % PROJECTS].uid,
            cpu_milli=100,
            memory_mib=256,
            gpus=1,
            asked_at=at + timedelta(milliseconds=100 * n),
            **more,
        )

    held = Claim.objects.bulk_create(claim(n, granted_at=at) for n in range(DEVICES))
    Hold.objects.bulk_create(Hold(claim=c, device=d) for c, d in zip(held, devices, strict=True))
    waiting = Claim.objects.bulk_create(claim(n, gpu_flavor="h100") for n in range(WAITING))
    insert(
        [
            Job(
                uid=one.workload_uid,
                project=projects[n % PROJECTS],
                owner=users[n % PROJECTS],
                name=f"j{n}",
                cluster_key="local",
                environment="jupyterlab",
                command=["python"],
                launch=1,
                gpus=1,
                gpu_flavor="h100",
                cpu_milli=100,
                memory_mib=256,
                phase="pending",
                generation=1,
                observed_generation=1,
                reason="queued",
                asked_at=one.asked_at,
                external_ref={"queue": {"position": n + 1, "ahead": n, "lacking": ["gpu:h100"]}},
            )
            for n, one in enumerate(waiting)
        ]
    )
    Turn.objects.bulk_create(
        Turn(
            cluster=cluster,
            workload_uid=uuid4(),
            workload_kind="job",
            project_uid=projects[n % PROJECTS].uid,
            gpus=1,
            asked_at=at - timedelta(hours=3),
            granted_at=at - timedelta(hours=2),
            ended_at=at - timedelta(minutes=n % 60),
        )
        for n in range(1000)
    )
    middle = Job.objects.select_related("project", "owner").get(name=f"j{WAITING // 2}")
    return Principal(user=middle.owner), middle


def run(rounds: int = sized(20, 2)) -> list[Result]:
    setup()
    who, row = fill()
    from work.waits import wait_of

    def one() -> None:
        found = wait_of(who, row)
        assert found is not None
        assert found.estimate is not None

    one()  # whatever was cold
    told = [timed(one) * 1000 for _round in range(rounds)]
    note = f"{WAITING} wait for {DEVICES} GPUs"
    return [Result("a wait, told", "ms", told, goal=20, floor=50, note=note)]


if __name__ == "__main__":
    for result in run():
        print(result.line())
