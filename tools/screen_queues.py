"""The tree of queues for the pictures: two organisations, guarantees, a month of work."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from django.urls import reverse

from accounts.principal import Principal
from budgets import services as budgets
from budgets.models import Budget
from clusters.models import Claim, Cluster
from common.clock import now
from jobs.models import Job
from projects.models import Project
from queues import services
from queues.models import Queue
from queues.planning import Change
from queues.sharing import Share
from queues.tree import entries
from usage.models import Interval

if TYPE_CHECKING:
    from accounts.models import User

_ON, _HERE = "?on=east/h100-80", "?on=local/h100-80"
ACTS: dict[str, tuple[tuple[str, ...], ...]] = {}


def make(tenants: dict[str, Project], who: dict[str, User]) -> None:
    olga = Principal(user=who["olga"], ip="192.0.2.7")
    protein = Project.objects.create(slug="protein", name="Protein folding", phase="running")
    climate = Project.objects.create(slug="climate", name="Climate model", phase="running")
    life = services.queue_create(principal=olga, name="Life sciences")
    group = services.queue_create(principal=olga, name="Microscopy", parent=life.key)
    earth = services.queue_create(principal=olga, name="Earth and language")
    h100 = ("east", "h100-80")
    services.queues_change(
        principal=olga,
        changes={
            life.key: Change(shares={h100: Share(40, most=64)}),
            str(tenants["vision"].uid): Change(
                parent=group.key,
                shares={h100: Share(16, lends=8)},
                each_gpus=8,
                longest={"train": 24 * 60},
            ),
            str(protein.uid): Change(parent=life.key, shares={h100: Share(24)}),
            str(tenants["speech"].uid): Change(parent=earth.key, shares={h100: Share(8, most=16)}),
            str(climate.uid): Change(parent=earth.key, shares={h100: Share(16)}),
        },
    )
    levels = {"manages_queues": True, "unit_label": "berth.dev/su", "rack_label": "berth.dev/rack"}
    east = Cluster.objects.get(key="east")
    Cluster.objects.filter(pk=east.pk).update(options={**east.options, **levels})
    _month([tenants["vision"], protein, climate, tenants["speech"]], who["alice"])
    _waiting(protein, who["alice"])
    _budgets(tenants, who, olga, life.key)
    for name, key in (("effect", climate.uid), ("effect-now", protein.uid)):
        number = "48" if name == "effect" else "6"
        ACTS[f"queues-{name}"] = (
            ("type", f"[name='guaranteed:{key}']", number),
            ("press", f"[name='weight:{key}']"),
        )


def _budgets(tenants: dict[str, Project], who: dict[str, User], olga: Principal, life: str) -> None:
    """One that lasts, one that is nearly spent, one that is spent."""
    protein = Project.objects.get(slug="protein")
    above = Queue.objects.get(uid=life)
    for whose, hours, mode in (
        ({"project": tenants["vision"]}, 24_000, "soft"),
        ({"project": tenants["vision"], "user": who["alice"]}, 16_000, "hard"),
        ({"project": protein}, 9_000, "hard"),
        ({"organisation": above}, 60_000, "soft"),
    ):
        values = {"hours": hours, "days": 30, "mode": mode, "stops": False}
        budgets.budget_make(principal=olga, values=values, **whose)


def _waiting(project: Project, owner: User) -> None:
    """A job that waits on the machine for more than is free there."""
    job = Job.objects.create(
        project=project,
        owner=owner,
        name="fold-17",
        environment="jupyterlab",
        command=["python", "fold.py"],
        cluster_key="local",
        gpus=6,
        gpu_flavor="h100-80",
        launch=1,
        phase="pending",
        asked_at=now(),
    )
    Claim.objects.create(
        cluster=Cluster.objects.get(key="local"),
        workload_uid=job.uid,
        workload_kind=job.KIND,
        project_uid=project.uid,
        owner_uid=owner.uid,
        gpus=6,
        gpu_flavor="h100-80",
        asked_at=now(),
    )


def _month(projects: list[Project], owner: User) -> None:
    """Work of thirty days, more by day than there are GPUs."""
    random = Random(4)
    begin = now() - timedelta(days=30)
    Interval.objects.bulk_create(
        Interval(
            uid=UUID(int=random.getrandbits(128)),
            launch=1,
            kind="job",
            name=f"train-{n}",
            project_uid=project.uid,
            project_slug=project.slug,
            owner_uid=owner.uid,
            owner_name=owner.username,
            cluster_key="east",
            gpus=gpus,
            flavor="h100-80",
            started_at=at,
            ended_at=at + timedelta(hours=random.choice((5, 12, 20, 36))),
        )
        for n in range(900)
        for project, gpus in [(random.choice(projects[:3]), random.choice((1, 2, 4, 8)))]
        for at in [begin + timedelta(hours=720 * n / 900 + random.random())]
    )


def pages() -> list[tuple[str, str, str]]:
    vision = next(e.key for e in entries().values() if e.slug == "vision")
    life = next(e.key for e in entries().values() if e.name == "Microscopy")
    tree = reverse("queues:tree") + _ON
    budget = Budget.objects.order_by("pk")[0]
    return [
        ("olga", "queues-tree", tree),
        ("olga", "queues-effect", tree),
        ("olga", "queues-effect-now", reverse("queues:tree") + _HERE),
        ("olga", "queues-part", reverse("queues:part", kwargs={"part": vision})),
        ("olga", "budgets", reverse("budgets:list")),
        ("olga", "budgets-edit", reverse("budgets:edit", kwargs={"budget": budget.uid})),
        ("olga", "budgets-create", reverse("budgets:create")),
        ("olga", "showback", reverse("usage:showback")),
        ("alice", "showback-project", reverse("usage:project-showback", args=["vision"])),
        ("olga", "queues-organisation", reverse("queues:part", kwargs={"part": life})),
        *(
            ("olga", f"queues-{name}", reverse(f"queues:{name}"))
            for name in ("create", "two-groups", "priorities", "priority-create", "history")
        ),
    ]
