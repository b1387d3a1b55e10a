"""Workspaces in every state on one machine, for the pictures (tools/screen_data.py)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clusters.models import Claim, Cluster, Device, Flavor, Hold
from common.clock import now
from metrics.models import Sample
from notebooks.models import Preset, Workspace
from quotas.models import Reservation
from usage.models import Interval
from volumes.models import Volume
from work.models import Step

if TYPE_CHECKING:
    from accounts.models import User
    from projects.models import Project

GPU_NAME = "NVIDIA H100 80GB HBM3"


def _machine() -> tuple[Cluster, list[Device]]:
    cluster, _made = Cluster.objects.update_or_create(
        key="local",
        defaults={
            "name": "gpu-01",
            "driver": "fake",
            "reachable": True,
            "version": "Linux 6.1",
            "checked_at": now() - timedelta(seconds=8),
            "capacity": {"cpu_milli": 96_000, "memory_mib": 1_031_000},
            "isolation": {
                "users": True,
                "proc": True,
                "tmp": True,
                "memory": True,
                "cpu": True,
                "pids": True,
                "gpu": False,
            },
        },
    )
    flavor = Flavor.objects.create(
        name="h100-80", label="H100 80 GB", match="H100", memory_mib=81_559, price_per_hour=2.4
    )
    loads = (
        (91, 70_000),
        (88, 66_400),
        (34, 21_000),
        (0, 12),
        (0, 12),
        (None, None),
        (0, 12),
        (3, 900),
    )
    devices = [
        Device.objects.create(
            cluster=cluster,
            uuid=f"GPU-{index:08d}-4f2a",
            index=index,
            name=GPU_NAME,
            flavor=flavor,
            memory_mib=81_559,
            memory_used_mib=memory,
            utilisation=share,
            seen_at=now() - timedelta(seconds=8),
            healthy=share is not None,
        )
        for index, (share, memory) in enumerate(loads)
    ]
    return cluster, devices


def _workspace(owner: User, project: Project, name: str, phase: str, **extra: Any) -> Workspace:
    ago = timedelta(minutes=extra.pop("minutes", 50))
    home, _made = Volume.objects.get_or_create(
        project=project,
        owner=owner,
        kind="home",
        defaults={
            "name": f"home-{owner.username}",
            "phase": "running",
            "observed_generation": 1,
            "used_bytes": 48_318_382_080,
            "used_at": now(),
            "size_limit_mib": 204_800,
        },
    )
    stopped = phase in {"stopped", "failed", "stopping"}
    row = Workspace.objects.create(
        owner=owner,
        project=project,
        name=name,
        phase=phase,
        home=home,
        launch=1,
        desired="stopped" if stopped and phase != "failed" else "running",
        generation=2,
        observed_generation=2,
        phase_since=now() - ago,
        asked_at=now() - ago,
        started_at=None if phase == "pending" else now() - ago,
        **extra,
    )
    if phase == "running":
        row.ready_at = now() - ago + timedelta(seconds=3)
        row.last_used_at = now() - timedelta(minutes=2)
        row.save()
    return row


def _steps(row: Workspace, *words: tuple[str, float, str]) -> None:
    at = row.asked_at or now()
    for word, seconds, message in words:
        at += timedelta(seconds=seconds)
        Step.objects.create(workload=row, launch=1, word=word, at=at, message=message)


def _hold(row: Workspace, cluster: Cluster, devices: list[Device], *, granted: bool = True) -> None:
    asked_at = row.asked_at or now()
    claim = Claim.objects.create(
        cluster=cluster,
        workload_uid=row.uid,
        workload_kind="workspace",
        project_uid=row.project.uid,
        owner_uid=row.owner.uid,
        cpu_milli=row.cpu_milli,
        memory_mib=row.memory_mib,
        gpus=row.gpus,
        gpu_flavor=row.gpu_flavor,
        asked_at=asked_at,
        granted_at=asked_at if granted else None,
    )
    for device in devices:
        Hold.objects.create(claim=claim, device=device)
    for resource, amount in (
        ("gpus", row.gpus),
        ("cpu_milli", row.cpu_milli),
        ("memory_mib", row.memory_mib),
        ("workspaces", 1),
    ):
        Reservation.objects.create(
            workload_uid=row.uid,
            project=row.project,
            owner=row.owner,
            resource=resource,
            amount=amount,
            launch=1,
            reserved_at=asked_at,
        )


def make(who: dict[str, User], tenants: dict[str, Project]) -> dict[str, Workspace]:
    cluster, gpus = _machine()
    preset = Preset.objects.filter(gpus__gt=0).first() or Preset.objects.first()
    vision, alice = tenants["vision"], who["alice"]
    big = {"cpu_milli": 16_000, "memory_mib": 131_072, "preset": preset}
    made = {
        "running": _workspace(
            alice,
            vision,
            "cell tracking",
            "running",
            gpus=2,
            gpu_flavor="h100-80",
            time_limit_minutes=480,
            ends_at=now() + timedelta(hours=5, minutes=12),
            **big,
        ),
        "starting": _workspace(alice, vision, "augmentation study", "starting", minutes=0, **big),
        "pending": _workspace(
            alice,
            vision,
            "full dataset run",
            "pending",
            gpus=6,
            minutes=14,
            reason="queued",
            external_ref={"queue": {"position": 1, "ahead": 0, "lacking": ["gpu"]}},
            **big,
        ),
        "stopped": _workspace(
            alice,
            vision,
            "figures for the paper",
            "stopped",
            minutes=2900,
            stop_reason="idle",
            stopped_at=now() - timedelta(days=2),
        ),
        "failed": _workspace(
            alice,
            vision,
            "baseline",
            "failed",
            minutes=95,
            reason="oom",
        ),
        "bob": _workspace(
            bob := who["bob"], vision, "annotations", "running", gpus=1, gpu_flavor="h100-80", **big
        ),
    }
    _hold(made["running"], cluster, gpus[:2])
    _hold(made["bob"], cluster, gpus[2:3])
    _hold(made["starting"], cluster, [])
    _hold(made["pending"], cluster, [], granted=False)
    done = (("accepted", 0, ""), ("queued", 0.1, ""), ("placed", 0.2, "gpu-01"))
    _steps(made["running"], *done, ("starting", 0.1, ""), ("ready", 1.1, ""), ("running", 0.1, ""))
    _steps(made["starting"], *done, ("starting", 0.1, ""))
    _steps(made["pending"], *done[:2])
    _steps(
        made["failed"],
        *done,
        ("starting", 0.1, ""),
        ("ready", 1.2, ""),
        ("running", 0.1, ""),
        ("failed", 1800, "Out of memory"),
    )
    _steps(
        made["bob"],
        *done,
        ("ready", 2.1, ""),
        ("restarted", 300, "vanished"),
        ("starting", 0.2, ""),
        ("ready", 2.0, ""),
    )
    _samples(made["running"])
    _usage(made, alice, bob, vision)
    return made


def _samples(row: Workspace) -> None:
    for minute in range(60):
        wave = abs(30 - minute) / 30
        Sample.objects.create(
            uid=row.uid,
            at=now() - timedelta(minutes=60 - minute),
            cpu_milli=int(4000 + 9000 * wave),
            memory_mib=int(52_000 + 400 * minute),
            gpu_utilisation=60 + 38 * wave,
            gpu_memory_mib=int(90_000 + 30_000 * wave),
        )


def _usage(made: dict[str, Workspace], alice: User, bob: User, project: Project) -> None:
    for day in range(28):
        for person, gpus in ((alice, 2), (bob, 1)):
            begin = now() - timedelta(days=day, hours=9)
            Interval.objects.create(
                uid=made["stopped"].uid,
                launch=1000 + day * 2 + gpus,
                kind="workspace",
                name="figures for the paper",
                project_uid=project.uid,
                project_slug=project.slug,
                owner_uid=person.uid,
                owner_name=person.username,
                cluster_key="local",
                gpus=gpus,
                flavor="h100-80",
                cpu_milli=8000,
                memory_mib=65_536,
                started_at=begin,
                ended_at=begin + timedelta(hours=2 + (day * 7 + gpus) % 6),
                end_reason="user",
            )
