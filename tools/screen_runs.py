"""A job that lost its place once and left its files, and its runs, for the pictures."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.urls import reverse

from common.clock import now
from jobs.models import Job, Run
from usage.ledger import millis
from usage.models import Interval, Wait
from volumes.models import Volume

if TYPE_CHECKING:
    from accounts.models import User
    from projects.models import Project

_NAMED = [["model/weights.safetensors", 2_147_483_648], ["curves.png", 41_222], ["log.txt", 9_140]]


def make(vision: Project, owner: User) -> Job:
    """Make three runs; of the latest its time on two GPUs, with what was asked back."""
    at = now() - timedelta(hours=3)
    row = Job.objects.create(
        project=vision,
        owner=owner,
        name="finetune-cells-with-augmented-stacks",
        environment="jupyterlab",
        command=["python", "train.py", "--epochs", "90"],
        gpus=2,
        gpu_flavor="h100-80",
        output="s3://results/cells",
        launch=4,
        phase="stopped",
        reason="finished",
        exit_code=0,
        generation=1,
        observed_generation=1,
        asked_at=at,
        started_at=at + timedelta(minutes=70),
        stopped_at=at + timedelta(minutes=130),
        finished_at=at + timedelta(minutes=130),
    )
    for launch, how, code in ((1, "failed", 137), (2, "cancelled", None), (3, "succeeded", 0)):
        began = at - timedelta(days=3 - launch)
        Run.objects.create(
            job=row,
            launch=launch,
            by=owner,
            asked_at=began,
            began_at=began + timedelta(minutes=4),
            ended_at=began + timedelta(minutes=130),
            how=how,
            exit_code=code,
            said={"gpus": launch, "output": row.output},
            commit="4f2a9c17d0" * 4,
            places=[{"launch": launch, "at": began.isoformat(), "nodes": ["gpu-11", "gpu-12"]}],
            output_volume=Volume.objects.filter(project=vision).first(),
            output_folder=f"job-outputs/finetune-cells/{launch}",
            output_url=f"s3://results/cells/finetune-cells/{launch}/",
            output_how="done",
            output_told={"files": 3, "bytes": sum(size for _, size in _NAMED), "named": _NAMED},
        )
    whose = {
        "uid": row.uid,
        "kind": "job",
        "project_uid": vision.uid,
        "project_slug": vision.slug,
        "owner_uid": owner.uid,
        "owner_name": owner.username,
        "cluster_key": "local",
        "flavor": "h100-80",
        "gpus": 2,
    }
    for launch, reason, waited, begin, end in (
        (3, "preempted", 0, 20, 40),
        (4, "finished", 40, 70, 130),
    ):
        minutes = [at + timedelta(minutes=n) for n in (waited, begin, end)]
        Wait.objects.create(
            **whose, launch=launch, began_at=minutes[0], ended_at=minutes[1], placed=True
        )
        held = {"started_at": minutes[1], "ended_at": minutes[2], "end_reason": reason}
        ran = [[millis(minutes[1]), "run"]]
        Interval.objects.create(**whose, launch=launch, **held, marks=ran)
    return row


def pages(row: Job) -> list[tuple[str, str, str]]:
    keys = {"project": row.project.slug, "job": row.short_id}
    every = reverse("jobs:all-runs", kwargs={"project": row.project.slug})
    runs = reverse("jobs:runs", kwargs=keys)
    return [
        ("alice", "runs-of-all", every),
        ("alice", "runs-none-like-that", f"{every}?job=nothing"),
        ("alice", "job-runs-compared", f"{runs}?of=1&of=3"),
        ("alice", "job-preempted", row.get_absolute_url()),
        ("alice", "job-goodput", reverse("jobs:goodput", kwargs=keys)),
        ("alice", "job-artifacts", reverse("jobs:artifacts", kwargs=keys)),
    ]
