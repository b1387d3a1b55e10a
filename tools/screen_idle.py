"""Holders of a thousand GPUs, some of whom do not use them, and policies, for the pictures."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from common.clock import now
from hubapi.models import Activity
from metrics.models import FIELDS, HourSample
from notebooks.models import Workspace
from parking.choices import State
from parking.models import IdlePolicy, Stretch
from projects.models import Membership, Project
from usage.models import Interval
from volumes.models import Volume

if TYPE_CHECKING:
    from accounts.models import User

HOLDERS = 120
_HOURS = 36
_NAMES = ("ablation", "notebook", "segmentation", "playground", "eval", "demo", "finetune")


def make(who: dict[str, User]) -> Workspace:
    """Return a workspace of dora that was warned."""
    dice, owner = Random(11), who["dora"]
    lab = Project.objects.create(slug="robotics", name="Robotics", phase="running")
    Membership.objects.create(project=lab, user=owner, role="owner")
    home = Volume.objects.create(
        project=lab,
        owner=owner,
        kind="home",
        name="home-dora",
        phase="running",
        observed_generation=1,
        size_limit_mib=204_800,
    )
    rows = []
    for number in range(HOLDERS):
        hours = dice.randint(6, 90)
        gpus = dice.choice((1, 1, 2, 4, 8, 8, 16, 32))
        began = now() - timedelta(hours=hours)
        row = Workspace.objects.create(
            owner=owner,
            project=lab,
            name=f"{dice.choice(_NAMES)}-{number}",
            phase="running",
            home=home,
            launch=1,
            desired="running",
            generation=2,
            observed_generation=2,
            gpus=gpus,
            gpu_flavor="h100-80",
            cluster_key="local",
            asked_at=began,
            started_at=began,
            ready_at=began,
        )
        rows.append(row)
        Interval.objects.create(
            uid=row.uid,
            launch=1,
            kind="workspace",
            name=row.name,
            project_uid=lab.uid,
            project_slug=lab.slug,
            owner_uid=owner.uid,
            owner_name=owner.username,
            cluster_key="local",
            gpus=gpus,
            flavor="h100-80",
            started_at=began,
        )
        quiet = dice.choice((0, 0, 3, 9, 20))
        _measured(row, min(hours, _HOURS), quiet, dice)
        Activity.objects.create(
            uid=row.uid,
            polled_at=now(),
            last_activity=now() - timedelta(hours=quiet, minutes=4),
            kernels=1,
            busy_kernels=0 if quiet else 1,
        )
    policy = IdlePolicy.objects.create(state=State.ON)
    IdlePolicy.objects.create(project=lab, state=State.DRY_RUN, minutes=30, weekdays="12345")
    IdlePolicy.objects.create(kind="job", act="tell", minutes=240, state=State.OFF)
    warned = rows[0]
    Stretch.objects.create(
        workload=warned,
        launch=1,
        policy=policy,
        since=now() - timedelta(minutes=63),
        quiet_since=now() - timedelta(minutes=63),
        quiet_until=now(),
        warned_at=now() - timedelta(minutes=3),
        due_at=now() + timedelta(minutes=12),
        extensions=2,
    )
    return warned


def _measured(row: Workspace, hours: int, quiet: int, dice: Random) -> None:
    this = now().replace(minute=0, second=0, microsecond=0)
    found = []
    for ago in range(hours):
        mean = dice.uniform(0, 3) if ago < quiet else dice.uniform(25, 95)
        told: dict[str, Any] = {}
        for name in FIELDS:
            value = {"gpu_utilisation": mean, "cpu_milli": 20.0}.get(name)
            told[f"{name}_count"] = 0 if value is None else 360
            told[f"{name}_sum"] = None if value is None else 360 * value
            told[f"{name}_min"] = told[f"{name}_max"] = value
        at = this - timedelta(hours=ago)
        found.append(HourSample(uid=row.uid, at=at, samples=360, shared=0, simulated=0, **told))
    HourSample.objects.bulk_create(found)


def pages(warned: Workspace) -> list[tuple[str, str, str]]:
    policy = IdlePolicy.objects.order_by("pk")[0]
    patrol, of_lab = reverse("parking:patrol"), ["robotics"]
    chosen = f"act=park&id={warned.uid}"
    return [
        ("olga", "patrol", patrol),
        ("olga", "patrol-empty", f"{patrol}?below=0.1&hours=700"),
        ("olga", "patrol-park", f"{reverse('parking:act')}?{chosen}"),
        ("dora", "patrol-project", reverse("parking:project-patrol", args=of_lab)),
        ("olga", "idle-policies", reverse("parking:policies")),
        ("olga", "idle-policy", reverse("parking:policy", args=[policy.uid])),
        ("olga", "idle-policy-new", reverse("parking:policy-new")),
        ("dora", "workspace-idle", warned.get_absolute_url()),
    ]
