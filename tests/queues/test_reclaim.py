"""The story of A6 on one machine: who borrowed is told, ends, waits, and goes on by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from clusters import services
from clusters.models import Claim, Cluster, Flavor
from common.clock import now
from events.models import Event
from jobs.models import Job
from jobs.states import state_of
from notifications.models import Notification
from projects.models import Membership, Project
from queues import local
from queues.line import Line
from queues.models import Guarantee, Queue, Turn
from queues.services import tree_changed
from runtime.hints import hint
from runtime.ports import AdmissionRequest, Granted, Waiting
from runtime.protocol import Device
from runtime.spec import Resources
from usage.models import Interval
from work.models import Step

pytestmark = pytest.mark.django_db
KIND = "h100"


@pytest.fixture
def fake(world: Any) -> Any:
    return world.driver_for("local")


@pytest.fixture
def eight(fake: Any) -> Cluster:
    """A machine with eight GPUs of one kind."""
    fake.set_devices([Device(f"GPU-{n}", n, "H100", 80_000) for n in range(8)])
    cluster = services.ensure_local_cluster()
    return services.health_store(key=cluster.key, health=fake.probe())


@pytest.fixture
def promise(eight: Cluster) -> Callable[..., Queue]:
    def make(project: Any, guaranteed: int, **columns: Any) -> Queue:
        queue = Queue.objects.create(project=project, name=project.slug)
        flavor = Flavor.objects.get(name=KIND)
        Guarantee.objects.create(
            queue=queue, cluster=eight, flavor=flavor, guaranteed=guaranteed, **columns
        )
        return queue

    return make


@pytest.fixture
def submit(alice: Any) -> Callable[..., list[Job]]:
    def make(project: Any, number: int, **columns: Any) -> list[Job]:
        return [
            Job.objects.create(
                project=project,
                owner=alice,
                name=f"job-{Job.objects.count()}",
                cluster_key="local",
                environment="jupyterlab",
                command=["python", "train.py"],
                launch=1,
                gpus=1,
                cpu_milli=100,
                memory_mib=256,
                asked_at=now(),
                next_reconcile_at=now(),
                **columns,
            )
            for _n in range(number)
        ]

    return make


@pytest.fixture
def projects(alice: Any) -> list[Any]:
    made = [
        Project.objects.create(slug=slug, name=slug.title(), phase="running")
        for slug in ("hunter", "allen", "evan")
    ]
    for project in made:
        Membership.objects.create(project=project, user=alice, role="owner")
    return made


def states(rows: list[Job]) -> list[str]:
    return [state_of(Job.objects.get(pk=row.pk)) for row in rows]


def all_due() -> None:
    for row in Job.objects.all():
        hint(row)


def test_a6_borrowed_gpus_go_back_and_a7_their_jobs_resume_by_themselves(
    promise, submit, projects, settle, fake, alice
):
    for project in projects:
        promise(project, 2)
    hunter, allen, _evan = projects
    borrowing = submit(hunter, 8)
    settle()
    assert states(borrowing) == ["running"] * 8  # two of them guaranteed, six borrowed

    owed = submit(allen, 2)
    fake.script("*", stop_takes_s=0)
    for _look in range(6):
        settle()
        all_due()
    assert states(owed) == ["running"] * 2
    told = [row for row in borrowing if state_of(Job.objects.get(pk=row.pk)) == "queued"]
    assert len(told) == 2
    assert states(borrowing[:2]) == ["running"] * 2  # the guaranteed ones are not touched
    for row in told:
        row.refresh_from_db()
        assert (row.launch, row.desired) == (2, "running")
        assert Step.objects.filter(workload=row, launch=1, word="reclaimed").count() == 1
        claim = Claim.objects.get(workload_uid=row.uid)
        assert (claim.granted_at, claim.reclaim_at) == (None, None)
        assert Turn.objects.filter(workload_uid=row.uid, gave_back=True).count() == 1
        assert Event.objects.filter(verb="job.reclaimed", target_uid=row.uid).count() == 1
        assert [i.ended_at is not None for i in Interval.objects.filter(uid=row.uid)] == [True]
    assert fake.told(str(told[0].uid))["why"] == "reclaim"
    sent = Notification.objects.filter(kind="work.reclaimed")
    assert [one.user for one in sent] == [alice, alice]
    assert {one.params["whom"] for one in sent} == {"Allen"}  # alice belongs to it

    for row in owed:  # Allen is done
        fake.exit(str(row.uid), code=0)
    for _look in range(4):
        all_due()
        settle()
    assert states(owed) == ["succeeded"] * 2
    assert states(borrowing) == ["running"] * 8
    for row in told:
        row.refresh_from_db()
        assert row.external_ref["given_back"]["times"] == 1
        assert "since" not in row.external_ref["given_back"]


def test_nobody_within_a_guarantee_is_asked(promise, submit, projects, settle):
    for project in projects:
        promise(project, 2)
    hunter, allen, evan = projects
    first = submit(hunter, 8)
    settle()
    rest = [*submit(allen, 3), *submit(evan, 3)]
    for _look in range(6):
        all_due()
        settle()
    running = [row for row in (*first, *rest) if state_of(Job.objects.get(pk=row.pk)) == "running"]
    by_project = {p.slug: sum(1 for r in running if r.project_id == p.pk) for p in projects}
    assert len(running) == 8
    assert all(count >= 2 for count in by_project.values())


def test_who_asked_and_went_leaves_the_told_one_in_line_at_its_old_place(
    promise, submit, projects, settle
):
    for project in projects[:2]:
        promise(project, 4)
    hunter, allen, _evan = projects
    borrowing = submit(hunter, 8)
    settle()
    owed = AdmissionRequest(
        cluster_key="local",
        uid=str(uuid4()),
        kind="job",
        project_uid=str(allen.uid),
        owner_uid=str(uuid4()),
        resources=Resources(100, 256, gpus=1),
    )
    assert local.admit(owed).reason == "reclaiming"
    victim = Claim.objects.get(reclaim_at__isnull=False)
    assert victim.reclaim_until - victim.reclaim_at == timedelta(seconds=60)
    assert local.admit(owed).reason == "reclaiming"  # asking again asks nobody else
    assert Claim.objects.filter(reclaim_at__isnull=False).count() == 1
    local.release(owed.uid)
    for _look in range(4):
        all_due()
        settle()
    assert states(borrowing) == ["running"] * 8
    gave = Turn.objects.filter(workload_uid=victim.workload_uid, gave_back=True)
    assert gave.count() == 1


def test_a_ceiling_holds_only_its_own_project(promise, submit, projects, settle):
    hunter, allen, _evan = projects
    promise(hunter, 1, most=3)
    mine = submit(hunter, 5)
    others = submit(allen, 4)
    settle()
    assert states(mine).count("running") == 3
    assert states(others) == ["running"] * 4
    waits = next(
        Job.objects.get(pk=r.pk) for r in mine if state_of(Job.objects.get(pk=r.pk)) == "queued"
    )
    assert waits.reason == "ceiling"
    assert "may hold no more" in waits.message


def test_nobody_passes_what_others_give_back_for_however_short_they_are(
    promise, projects, eight, fake
):
    """They would borrow what comes back, and be asked for it at once, and so on without end."""
    hunter, allen, evan = projects
    promise(allen, 8)

    def ask(project, gpus, **more):
        size = Resources(0, 0, gpus, KIND)
        uid, owner = str(uuid4()), str(uuid4())
        return AdmissionRequest("local", uid, "thing", str(project.uid), owner, size, **more)

    borrowing = [ask(hunter, 4), ask(hunter, 4)]
    assert all(isinstance(local.admit(one), Granted) for one in borrowing)
    owed, short = ask(allen, 8), ask(evan, 1, time_limit_minutes=1)
    assert isinstance(local.admit(owed), Waiting)
    assert Claim.objects.filter(reclaim_at__isnull=False).count() == 2
    assert isinstance(local.admit(replace(borrowing[0], launch=1)), Waiting)  # gives back first
    assert isinstance(local.admit(short), Waiting)
    assert isinstance(local.admit(replace(borrowing[1], launch=1)), Waiting)
    assert isinstance(local.admit(owed), Granted)


def test_what_is_owed_is_not_kept_back_by_older_work_that_would_borrow(promise, projects, eight):
    """A device is free: nobody is asked for one because older work of its project waits for two."""
    hunter, allen, _evan = projects
    promise(allen, 1)

    def ask(project, gpus):
        uid, owner, size = str(uuid4()), str(uuid4()), Resources(0, 0, gpus, KIND)
        return AdmissionRequest("local", uid, "thing", str(project.uid), owner, size)

    assert isinstance(local.admit(ask(hunter, 7)), Granted)
    assert isinstance(local.admit(ask(allen, 2)), Waiting)
    assert isinstance(local.admit(ask(allen, 1)), Granted)
    assert not Claim.objects.filter(reclaim_at__isnull=False).exists()


def test_a_guarantee_that_is_set_later_counts_at_once_for_what_waits(
    promise, submit, projects, settle
):
    """What people sit in front of is within it from then on, and is not asked for what it gets."""
    hunter, allen, _evan = projects
    submit(allen, 8)
    settle()
    request = AdmissionRequest(
        cluster_key="local",
        uid=str(uuid4()),
        kind="workspace",
        project_uid=str(hunter.uid),
        owner_uid=str(uuid4()),
        resources=Resources(100, 256, gpus=1),
        purpose="build",
    )
    assert local.admit(request).reason == "queued"
    assert Claim.objects.get(workload_uid=request.uid).reclaimable
    with transaction.atomic():
        promise(hunter, 1)
        tree_changed()
    assert Claim.objects.filter(reclaim_for=request.uid).count() == 1
    for _look in range(4):
        all_due()
        settle()
    claim = Claim.objects.get(workload_uid=request.uid)
    assert claim.granted_at is not None
    assert not claim.reclaimable


def test_what_began_beyond_its_budget_is_its_own_again_when_there_is_room(promise, projects, eight):
    """What people sit in front of may be asked back only while its GPU-hours are spent."""
    hunter, _allen, _evan = projects
    promise(hunter, 1)
    request = AdmissionRequest(
        cluster_key="local",
        uid=str(uuid4()),
        kind="workspace",
        project_uid=str(hunter.uid),
        owner_uid=str(uuid4()),
        resources=Resources(100, 256, gpus=1),
        purpose="build",
        over_budget="borrows",
    )
    assert isinstance(local.admit(request), Granted)
    assert Line(eight).pool().over(KIND) == {request.uid}
    local.budgets_looked_at({UUID(request.uid): ""})
    assert not Claim.objects.get(workload_uid=request.uid).reclaimable
    assert not Line(eight).pool().over(KIND)


def test_an_admission_reads_the_tree_once(promise, submit, projects, settle):
    for project in projects:
        promise(project, 2)
    hunter, _allen, _evan = projects
    request = AdmissionRequest(
        cluster_key="local",
        uid=str(uuid4()),
        kind="job",
        project_uid=str(hunter.uid),
        owner_uid=str(uuid4()),
        resources=Resources(100, 256, gpus=1),
    )
    submit(hunter, 1)
    settle()
    with CaptureQueriesContext(connection) as told:
        local.admit(request)
    tree = [q["sql"] for q in told.captured_queries if 'FROM "queues_guarantee"' in q["sql"]]
    assert len(tree) == 1
