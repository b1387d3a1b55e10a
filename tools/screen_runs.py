"""Jobs that lost their place and left their files, and their runs, for the pictures."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.urls import reverse

from common.clock import now
from jobs.models import Copies, Job, Run
from usage.ledger import millis
from usage.models import Interval, Wait
from volumes.models import Volume

if TYPE_CHECKING:
    from accounts.models import User
    from projects.models import Project

_LAUNCHES = 24  # of a run that lost its place again and again
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
    for launch, waited, begin, end in ((3, 0, 20, 40), (4, 40, 70, 130)):
        _held(row, launch, *(at + timedelta(minutes=n) for n in (waited, begin, end)))
    return row


def make_parked(vision: Project, owner: User) -> Job:
    """Make one with copies of its checkpoints whose only run began two dozen times."""
    at = now() - timedelta(days=2)
    row = Job.objects.create(
        project=vision,
        owner=owner,
        name="pretrain-tracker",
        environment="jupyterlab",
        command=["python", "pretrain.py"],
        cpu_milli=64_000,
        memory_mib=512 * 1024,
        gpus=8,
        gpu_flavor="h100-80",
        replicas=4,
        replicas_now=3,
        after_loss="fewer",
        min_replicas=2,
        checkpoints="shared/checkpoints",
        checkpoints_to="s3://results/cells",
        checkpoints_kept=3,
        launch=_LAUNCHES,
        phase="running",
        generation=1,
        observed_generation=1,
        asked_at=at,
        started_at=at + timedelta(minutes=4),
    )
    began = [at + timedelta(minutes=4 + 110 * n) for n in range(_LAUNCHES)]
    Run.objects.create(
        job=row,
        launch=1,
        by=owner,
        asked_at=at,
        began_at=began[0],
        said={"gpus": 8},
        places=[
            {
                "launch": n + 1,
                "at": t.isoformat(),
                "nodes": [f"gpu-{11 + n % 3}"],
                "replicas": 3 + n % 2,
            }
            for n, t in enumerate(began)
        ],
    )
    steps = [f"step-{n:08d}-of-the-cosine-schedule" for n in (42_000, 41_000, 40_000)]
    Copies.objects.create(
        job=row,
        url=f"s3://results/cells/checkpoints-{row.short_id}/",
        kept=[[f"{10**18 + n}-{name}", 48 * 2**30] for n, name in enumerate(steps)],
        copied_at=now() - timedelta(minutes=7),
        back_done=_LAUNCHES,
        restored=f"{10**18}-{steps[0]}",
        note="The store denies access: the credential may not write to s3://results/cells.",
    )
    for n, begin in enumerate(began):
        _held(row, n + 1, begin - timedelta(minutes=4), begin, begin + timedelta(minutes=71 + n))
    return row


def _held(row: Job, launch: int, asked: datetime, begin: datetime, end: datetime) -> None:
    """Write what it waited for its place and how long it had it."""
    whose = {
        "uid": row.uid,
        "kind": "job",
        "project_uid": row.project.uid,
        "project_slug": row.project.slug,
        "owner_uid": row.owner.uid,
        "owner_name": row.owner.username,
        "cluster_key": "local",
        "flavor": "h100-80",
        "gpus": row.gpus * row.launched_replicas,
        "launch": launch,
    }
    Wait.objects.create(**whose, began_at=asked, ended_at=begin, placed=True)
    reason = "preempted" if launch < row.launch else "finished" if row.finished_at else ""
    held = {"started_at": begin, "ended_at": end if reason else None, "end_reason": reason}
    Interval.objects.create(**whose, **held, marks=[[millis(begin), "run"]])


def pages(row: Job, parked: Job) -> list[tuple[str, str, str]]:
    other = {"project": row.project.slug, "job": parked.short_id}
    keys = {"project": row.project.slug, "job": row.short_id}
    every = reverse("jobs:all-runs", kwargs={"project": row.project.slug})
    runs = reverse("jobs:runs", kwargs=keys)
    return [
        ("alice", "runs-of-all", every),
        ("alice", "runs-none-like-that", f"{every}?job=nothing"),
        ("alice", "job-runs-compared", f"{runs}?of=1&of=3"),
        ("alice", "job-preempted", row.get_absolute_url()),
        ("alice", "job-goodput", reverse("jobs:goodput", kwargs=keys)),
        ("alice", "job-copied", parked.get_absolute_url()),
        ("alice", "job-copied-runs", reverse("jobs:runs", kwargs=other)),
        ("alice", "job-copied-goodput", reverse("jobs:goodput", kwargs=other)),
        ("alice", "job-copied-artifacts", reverse("jobs:artifacts", kwargs=other)),
        ("alice", "job-artifacts", reverse("jobs:artifacts", kwargs=keys)),
    ]
