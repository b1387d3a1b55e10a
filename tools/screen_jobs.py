"""Jobs in every state, for the pictures (tools/screen_data.py)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from common.clock import now
from jobs.models import Job, Replica
from work.models import Step

if TYPE_CHECKING:
    from accounts.models import User
    from projects.models import Project

_STEPS = ("accepted", "placed", "starting", "running")
ACTS = {
    "job-new-filled": (
        ("type", "#id_name", "train-resnet"),
        ("type", "#id_command", "python train.py --epochs 90"),
        ("type", "#id_replicas", "2"),
    ),
    "job-new-many": (
        ("type", "#id_image", "registry.example.org/team/train:1.2"),
        ("press", "#fill-many"),
    ),
    # On a cluster with operators of training, all that may be said.
    "job-new-tensorflow": (
        ("type", "#id_name", "train-resnet"),
        ("choose", "#id_cluster", "east"),
        ("type", "#id_image", "registry.example.org/team/train:1.2"),
        ("press", "[name=framework][value=tensorflow]"),
        ("type", "#id_replicas", "3"),
        ("type", "#id_parameter_servers", "2"),
        ("press", ".launch-less:has(#id_checkpoints_to) > summary"),
        ("press", "[name=after_loss][value=fewer]"),
        ("type", "#id_checkpoints", "shared/checkpoints"),
        ("type", "#id_checkpoints_to", "s3://bucket/checkpoints"),
    ),
    "job-new-evaluator": (
        ("choose", "#id_cluster", "east"),
        ("type", "#id_image", "registry.example.org/team/train:1.2"),
        ("press", "[name=framework][value=tensorflow]"),
        ("type", "#id_command", "python train.py"),
        ("press", ".launch-less:has(#id_evaluator) > summary"),
        ("press", "#id_evaluator"),
        ("press", ".launch-starts .btn-primary"),
    ),
    "job-new-wrong": (
        ("type", "#id_name", "train-resnet"),
        ("type", "#id_replicas", "0"),
        ("type", "#id_output", "results"),
        ("press", ".launch-less:has(#id_checkpoints_to) > summary"),
        ("type", "#id_checkpoints_to", "bucket/checkpoints"),
        ("press", ".launch-starts .btn-primary"),
    ),
}


def _job(owner: User, project: Project, name: str, **columns: Any) -> Job:
    asked = now() - timedelta(minutes=columns.pop("minutes", 40))
    codes: tuple[int | None, ...] | None = columns.pop("codes", None)
    values: dict[str, Any] = {
        "environment": "jupyterlab",
        "command": ["python", "train.py", "--epochs", "90"],
        "cpu_milli": 8000,
        "memory_mib": 65_536,
        "gpus": 1,
        "gpu_flavor": "h100-80",
        "time_limit_minutes": 720,
        "launch": 1,
        "phase": "running",
        "generation": 1,
        "observed_generation": 1,
        "asked_at": asked,
        "started_at": asked + timedelta(seconds=4),
        **columns,
    }
    row = Job.objects.create(project=project, owner=owner, name=name, **values)
    words = _STEPS if row.started_at else _STEPS[:1]
    end = {"failed": ("failed",), "stopped": ("stopped",)}.get(row.phase, ())
    for number, word in enumerate((*words, *end)):
        at = row.stopped_at if word in end and row.stopped_at else asked + timedelta(seconds=number)
        Step.objects.create(workload=row, launch=1, word=word, at=at)
    for index, code in enumerate(codes or ()):
        Replica.objects.create(
            job=row,
            launch=1,
            index=index,
            seen="ready" if code is None else "exited",
            exit_code=code,
            reason="stopped" if code == 143 else "",  # noqa: PLR2004 - ended by SIGTERM
            node=f"a100-0{index % 2 + 1}",
            started_at=row.started_at,
            ended_at=row.stopped_at,
        )
    return row


def make(vision: Project, who: dict[str, User]) -> dict[str, Job]:
    alice, over = who["alice"], now() - timedelta(minutes=9)
    return {
        "running": _job(
            alice,
            vision,
            "train-cells",
            replicas=4,
            codes=(None,) * 4,
            ends_at=now() + timedelta(hours=11),
        ),
        "queued": _job(
            alice,
            vision,
            "sweep-learning-rate",
            phase="pending",
            reason="queued",
            external_ref={"queue": {"position": 2, "lacking": ["gpus"]}},
            started_at=None,
            minutes=6,
        ),
        "succeeded": _job(
            alice,
            vision,
            "convert-stacks",
            gpus=0,
            gpu_flavor="",
            phase="stopped",
            reason="finished",
            exit_code=0,
            codes=(0,),
            stopped_at=over,
            finished_at=over,
        ),
        "failed": _job(
            alice,
            vision,
            "train-segmenter-large",
            replicas=3,
            phase="failed",
            reason="exit",
            exit_code=3,
            failed_replica=1,
            codes=(143, 3, 143),
            stopped_at=over,
            finished_at=over,
        ),
        "bob": _job(who["bob"], vision, "augment", codes=(None,)),
    }


def pages(vision: Project, made: dict[str, Job]) -> list[tuple[str, str, str]]:
    """Return who looks at which page, under which name."""
    slug = {"project": vision.slug}
    found = [("alice", "jobs", reverse("jobs:list", kwargs=slug))]
    found += [("alice", name, reverse("jobs:new", kwargs=slug)) for name in ("job-new", *ACTS)]
    for state, row in made.items():
        name = "of-a-colleague" if state == "bob" else state
        keys = {**slug, "job": row.short_id}
        found.append(("alice", f"job-{name}", reverse("jobs:detail", kwargs=keys)))
    keys = {**slug, "job": made["failed"].short_id}
    found += [
        ("alice", f"job-tab-{tab}", reverse(f"jobs:{tab}", kwargs=keys))
        for tab in ("logs", "events", "yaml", "settings")
    ]
    asked = {"act": "stop", "id": made["running"].short_id}
    found.append(("alice", "jobs-cancel", reverse("jobs:bulk", kwargs=slug, query=asked)))
    return found
