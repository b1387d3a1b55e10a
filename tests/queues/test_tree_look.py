"""What the tree tells of each part: held, borrowed, lent and waiting, on machines and clusters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from clusters.models import Claim, Cluster, Device, Flavor, Hold
from common.clock import now
from jobs.models import Job
from notebooks.models import Workspace
from projects.models import Project
from queues import hooks, selectors
from queues.models import Guarantee, Queue
from queues.planning import Change, plan
from queues.sharing import Share
from tests.support.queries import fewest
from usage.models import Interval
from volumes.models import Volume
from work.models import Step

pytestmark = pytest.mark.django_db


def project(slug: str) -> Project:
    return Project.objects.create(slug=slug, name=slug.title(), phase="running")


def share(queue: Queue, cluster: Cluster, number: int, **more: Any) -> None:
    flavor = Flavor.objects.get(name="h100")
    Guarantee.objects.create(queue=queue, cluster=cluster, flavor=flavor, guaranteed=number, **more)


def claim(cluster: Cluster, of: Project, gpus: int, *, held: bool = True) -> Claim:
    row = Claim.objects.create(
        cluster=cluster,
        workload_uid=uuid4(),
        workload_kind="job",
        project_uid=of.uid,
        gpus=gpus,
        gpu_flavor="h100",
        asked_at=now(),
        granted_at=now() if held else None,
    )
    free = Device.objects.filter(cluster=cluster, hold__isnull=True)
    if held:
        Hold.objects.bulk_create(Hold(claim=row, device=d) for d in free[:gpus])
    return row


def test_of_a_machine_it_tells_held_borrowed_lent_and_waiting(machine):
    there = machine(gpus=["H100"] * 8)
    hunter, allen, evan = project("hunter"), project("allen"), project("evan")
    lab = Queue.objects.create(name="Lab")
    share(lab, there, 3)
    share(Queue.objects.create(name="hunter", project=hunter, parent=lab), there, 2)
    share(Queue.objects.create(name="allen", project=allen, parent=lab), there, 2)
    share(Queue.objects.create(name="evan", project=evan), there, 2, lends=1)
    claim(there, hunter, 7)
    claim(there, allen, 2, held=False)
    looked = selectors.look()
    (column,) = looked.columns
    assert (column.where, column.exists, column.free) == (("local", "h100"), 8, 1)
    assert column.promise.promised == 6
    assert column.promise.short == ((lab.key, 3, 4),)
    uses = {one.entry.name: (one.use, one.depth) for one in looked.rows(column)}
    assert list(uses) == ["Lab", "Allen", "Hunter", "Evan"]
    use, depth = uses["Hunter"]
    assert (use.held, use.borrowed, use.within, use.waiting, depth) == (7, 5, 2, 0, 1)
    use, _depth = uses["Allen"]
    assert (use.held, use.lent, use.waiting) == (0, 1, 2)
    use, depth = uses["Lab"]
    assert (use.held, use.borrowed, use.waiting, depth) == (7, 5, 2, 0)
    use, _depth = uses["Evan"]
    assert (use.held, use.lent) == (0, 0)  # one of its two may be lent, and one is free
    assert (column.whole.held, column.whole.borrowed, column.whole.waiting) == (7, 5, 2)


def test_of_a_cluster_it_tells_what_rows_hold_and_wait_for(alice):
    hunter = project("hunter")
    east = Cluster.objects.create(
        key="east", name="East", driver="kubernetes", kinds={"h100": {"total": 8, "held": 2}}
    )
    Flavor.objects.create(name="h100", label="H100")
    for n, phase in enumerate(("running", "pending")):
        Job.objects.create(
            project=hunter,
            owner=alice,
            name=f"job-{n}",
            cluster_key="east",
            gpus=2,
            gpu_flavor="h100",
            replicas=2,
            phase=phase,
            launch=1,
            asked_at=now(),
        )
    (column,) = selectors.look([east]).columns
    use = column.uses[str(hunter.uid)]
    assert (column.exists, use.held, use.borrowed, use.waiting) == (6, 4, 4, 4)
    (own,) = selectors.of_project(hunter)
    assert (own.where, own.use.held, own.use.waiting) == (("east", "h100"), 4, 4)


def test_an_effect_on_a_cluster_names_the_work_and_keeps_building_within_its_guarantee(alice):
    hunter, allen = project("hunter"), project("allen")
    Cluster.objects.create(
        key="east", name="East", driver="kubernetes", kinds={"h100": {"total": 2}}
    )
    Flavor.objects.create(name="h100", label="H100")
    common = {"owner": alice, "cluster_key": "east", "gpus": 1, "gpu_flavor": "h100", "launch": 1}
    for n in range(2):
        Job.objects.create(
            project=hunter,
            name=f"train-{n}",
            phase="running",
            asked_at=now() - timedelta(hours=1, minutes=-n),
            **common,
        )
    home = Volume.objects.create(project=allen, owner=alice, name="home")
    for n in range(2):
        Workspace.objects.create(
            project=allen, home=home, name=f"lab-{n}", phase="pending", asked_at=now(), **common
        )
    east = ("east", "h100")
    (effect,) = plan({str(allen.uid): Change(shares={east: Share(1)})}).effects
    assert [one.name for one in effect.starts] == ["lab-0"]
    assert [(one.name, one.owner) for one in effect.asked] == [("train-1", alice.label)]
    (effect,) = plan({str(allen.uid): Change(shares={east: Share(2)})}).effects
    assert len(effect.starts) == len(effect.asked) == 2


def test_the_past_is_what_intervals_and_timelines_tell(machine, alice):
    there = machine(gpus=["H100"])
    hunter = project("hunter")
    begin = now() - timedelta(days=3)
    job = Job.objects.create(
        project=hunter, owner=alice, name="j", cluster_key="local", gpus=1, priority="low"
    )
    for launch in (1, 2):
        at = begin + timedelta(hours=launch)
        Step.objects.create(workload=job, launch=launch, word="accepted", at=at)
        Interval.objects.create(
            uid=job.uid,
            launch=launch,
            kind="job",
            project_uid=hunter.uid,
            project_slug="hunter",
            owner_uid=alice.uid,
            owner_name="alice",
            cluster_key="local",
            gpus=1,
            flavor="h100",
            started_at=at + timedelta(minutes=10),
            ended_at=at + timedelta(minutes=40),
        )
    (past,) = hooks.past_work(there.key, now() - timedelta(days=30))
    first = next(one for one in past if one.uid.endswith("/1"))
    assert (first.part, first.kinds, first.count) == (str(hunter.uid), ("h100",), 1)
    assert (first.seconds, first.priority, first.builds) == (1800, 10, False)
    assert first.asked_at == (begin + timedelta(hours=1)).timestamp()
    (effect,) = plan({str(hunter.uid): Change(shares={("local", "h100"): Share(1)})}).effects
    (seen,) = effect.past
    assert (seen.name, seen.before.works, seen.before.half) == ("Hunter", 2, 0)


def test_the_tree_costs_the_same_for_two_hundred_projects(machine):
    there = machine(gpus=["H100"] * 8)
    first = project("first")
    share(Queue.objects.create(name="first", project=first), there, 1)
    claim(there, first, 1)
    one = fewest(selectors.look)
    for n in range(200):
        made = project(f"p{n}")
        share(Queue.objects.create(name=f"p{n}", project=made), there, 1)
        claim(there, made, 1, held=False)
    assert fewest(selectors.look) == one <= 9
