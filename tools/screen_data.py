"""Fills an empty database with a small believable world and prints the pages to look at.

Only for pictures and for the accessibility test: rows are written as the engine would leave
them, so that every state can be seen without any process running.
"""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")

import django  # noqa: E402

django.setup()

from django.core.management import call_command  # noqa: E402
from django.urls import NoReverseMatch, reverse  # noqa: E402

from accounts.models import ApiToken, SshKey, User  # noqa: E402
from accounts.principal import Principal  # noqa: E402
from clusters.models import Claim, Cluster, Device, Flavor, Hold  # noqa: E402
from common.clock import now  # noqa: E402
from events.services import record  # noqa: E402
from loaders.models import Load  # noqa: E402
from notebooks.models import Preset, Sample, Step, Workspace  # noqa: E402
from notifications.models import Announcement, Notification  # noqa: E402
from projects.models import Membership, Project  # noqa: E402
from quotas.models import Limit, Reservation  # noqa: E402
from tools import screen_clusters, screen_loads, screen_volumes  # noqa: E402
from usage.models import Interval  # noqa: E402
from volumes.models import Volume  # noqa: E402

PASSWORD = "a-password-for-pictures"
GPU_NAME = "NVIDIA H100 80GB HBM3"


def people() -> dict[str, User]:
    found = {}
    for username, name, role in (
        ("alice", "Alice Meyer", ""),
        ("bob", "Bob Tanaka", ""),
        ("mona", "Mona Okafor", ""),
        ("dora", "Dora Lind", ""),
        ("olga", "Olga Brandt", "operator"),
    ):
        user = User(username=username, display_name=name, email=f"{username}@example.org")
        user.platform_role = role
        user.set_password(PASSWORD)
        user.last_login = now() - timedelta(hours=3)
        user.save()
        found[username] = user
    ApiToken.objects.create(
        user=found["alice"],
        name="training script",
        prefix="berth_x7Kq",
        digest="0" * 64,
        expires_at=now() + timedelta(days=200),
        last_used_at=now() - timedelta(minutes=4),
    )
    SshKey.objects.create(
        user=found["alice"],
        name="laptop",
        public_key="ssh-ed25519 AAAA alice@laptop",
        fingerprint="SHA256:h3l7Wq1rj0zvV2mYp0F1i8kR6aJc5uQe",
    )
    return found


def projects(who: dict[str, User]) -> dict[str, Project]:
    vision = Project.objects.create(
        slug="vision",
        name="Vision lab",
        phase="running",
        description="Segmentation and tracking in microscopy.",
    )
    speech = Project.objects.create(slug="speech", name="Speech synthesis", phase="running")
    Project.objects.create(
        slug="autumn-school", name="Autumn school 2025", phase="running", archived_at=now()
    )
    for project, username, role in (
        (vision, "alice", "owner"),
        (vision, "bob", "member"),
        (vision, "mona", "manager"),
        (speech, "alice", "member"),
        (speech, "mona", "owner"),
        (vision, "olga", "viewer"),
    ):
        Membership.objects.create(project=project, user=who[username], role=role)
    for resource, amount in (("gpus", 12), ("memory_mib", 1024 * 1024), ("workspaces", 10)):
        Limit.objects.create(project=vision, resource=resource, amount=amount)
    return {"vision": vision, "speech": speech}


def machine() -> tuple[Cluster, list[Device]]:
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


def workspace(owner: User, project: Project, name: str, phase: str, **extra: Any) -> Workspace:
    ago = timedelta(minutes=extra.pop("minutes", 50))
    home, _made = Volume.objects.get_or_create(
        project=project,
        owner=owner,
        kind="home",
        defaults={
            "name": f"home of {owner.username}",
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


def steps(row: Workspace, *words: tuple[str, float, str]) -> None:
    at = row.asked_at or now()
    for word, seconds, message in words:
        at += timedelta(seconds=seconds)
        Step.objects.create(workspace=row, launch=1, word=word, at=at, message=message)


def hold(row: Workspace, cluster: Cluster, devices: list[Device], *, granted: bool = True) -> None:
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


def workspaces(who: dict[str, User], tenants: dict[str, Project]) -> dict[str, Workspace]:
    cluster, gpus = machine()
    preset = Preset.objects.filter(gpus__gt=0).first() or Preset.objects.first()
    vision, alice = tenants["vision"], who["alice"]
    big = {"cpu_milli": 16_000, "memory_mib": 131_072, "preset": preset}
    made = {
        "running": workspace(
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
        "starting": workspace(alice, vision, "augmentation study", "starting", minutes=0, **big),
        "pending": workspace(
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
        "stopped": workspace(
            alice,
            vision,
            "figures for the paper",
            "stopped",
            minutes=2900,
            stop_reason="idle",
            stopped_at=now() - timedelta(days=2),
        ),
        "failed": workspace(
            alice,
            vision,
            "baseline",
            "failed",
            minutes=95,
            reason="oom",
        ),
        "bob": workspace(
            bob := who["bob"], vision, "annotations", "running", gpus=1, gpu_flavor="h100-80", **big
        ),
    }
    hold(made["running"], cluster, gpus[:2])
    hold(made["bob"], cluster, gpus[2:3])
    hold(made["starting"], cluster, [])
    hold(made["pending"], cluster, [], granted=False)
    done = (("accepted", 0, ""), ("queued", 0.1, ""), ("placed", 0.2, "gpu-01"))
    steps(made["running"], *done, ("starting", 0.1, ""), ("ready", 1.1, ""), ("running", 0.1, ""))
    steps(made["starting"], *done, ("starting", 0.1, ""))
    steps(made["pending"], *done[:2])
    steps(
        made["failed"],
        *done,
        ("starting", 0.1, ""),
        ("ready", 1.2, ""),
        ("running", 0.1, ""),
        ("failed", 1800, "Out of memory"),
    )
    samples(made["running"])
    usage(made, alice, bob, vision)
    return made


def samples(row: Workspace) -> None:
    for minute in range(60):
        wave = abs(30 - minute) / 30
        Sample.objects.create(
            workspace=row,
            at=now() - timedelta(minutes=60 - minute),
            cpu_milli=int(4000 + 9000 * wave),
            memory_mib=int(52_000 + 400 * minute),
            gpu_utilisation=60 + 38 * wave,
            gpu_memory_mib=int(90_000 + 30_000 * wave),
        )


def usage(made: dict[str, Workspace], alice: User, bob: User, project: Project) -> None:
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


def news(who: dict[str, User], made: dict[str, Workspace]) -> None:
    alice, olga = who["alice"], Principal(user=who["olga"], ip="192.0.2.7")

    for kind in ("project.added", "workspace.ending", "workspace.shared"):
        Notification.objects.create(
            user=alice,
            kind=kind,
            params={
                "name": "cell tracking" if kind != "project.added" else "Speech synthesis",
                "role": "Member",
                "minutes": 15,
                "who": "Mona Okafor",
            },
            url=made["running"].get_absolute_url(),
            created_at=now() - timedelta(minutes=9),
        )
    Announcement.objects.create(
        message="Maintenance on Friday from 18:00 to 20:00: running work is stopped, files stay.",
        severity="warning",
        starts_at=now() - timedelta(hours=1),
        created_by="olga",
    )
    actor = Principal(user=alice, ip="192.0.2.14")
    for verb, target in (
        ("workspace.launched", made["running"]),
        ("workspace.stopped", made["stopped"]),
        ("workspace.launched", made["pending"]),
    ):
        record(actor=actor, verb=verb, target=target, project_uid=made["running"].project.uid)
    record(actor=olga, verb="quota.changed", target=made["running"].project, message="gpus: 6")
    record(
        actor=actor,
        verb="workspace.opened",
        target=made["bob"],
        outcome="denied",
        message="Not shared with alice",
        project_uid=made["bob"].project.uid,
    )


def url(name: str, **kwargs: Any) -> str:
    try:
        return reverse(name, kwargs=kwargs or None)
    except NoReverseMatch:
        print(f"no page {name}", file=sys.stderr)
        return ""


def pages(
    who: dict[str, User],
    made: dict[str, Workspace],
    loads: dict[str, Load],
    volume: Volume,
    vision: Project,
) -> list[dict[str, str]]:
    slug = {"project": vision.slug}
    found: list[tuple[str, str, str]] = [
        ("", "sign-in", url("account_login")),
        ("", "reset-password", url("account_reset_password")),
        ("", "sign-up", url("account_signup")),
        ("dora", "home-no-project", "/"),
        ("alice", "home", "/"),
        ("alice", "workspaces", url("notebooks:list", **slug)),
        ("alice", "launch", url("notebooks:launch", **slug)),
    ]
    for state in ("starting", "pending", "running", "stopped", "failed", "bob"):
        name = "of-a-colleague" if state == "bob" else state
        row = {**slug, "workspace": made[state].short_id}
        found.append(("alice", f"workspace-{name}", url("notebooks:detail", **row)))
    one = {**slug, "workspace": made["running"].short_id}
    found += [
        ("alice", f"workspace-tab-{tab}", url(f"notebooks:{tab}", **one))
        for tab in ("logs", "events", "usage", "yaml", "settings")
    ]
    found += [
        ("alice", f"project-{name}", url(f"projects:{name}", **slug))
        for name in ("overview", "members", "events", "settings")
    ]
    found += [
        ("alice", "projects", url("projects:list")),
        ("alice", "project-new", url("projects:create")),
        ("alice", "permissions", url("projects:permissions")),
        ("alice", "volumes", url("volumes:list", **slug)),
        ("alice", "usage", url("usage:project", **slug)),
        ("alice", "my-usage", url("usage:mine")),
        ("alice", "notifications", url("notifications:list")),
        ("alice", "notification-settings", url("notifications:settings")),
    ]
    found += [
        ("alice", f"settings-{name}", url(f"accounts:{name}"))
        for name in ("profile", "security", "sessions", "tokens", "ssh-keys", "device")
    ]
    found.append(("alice", "not-found", "/projects/nothing-here/"))
    found += [
        ("olga", f"console-{name}", url(f"console:{name}"))
        for name in (
            "machines",
            "capacity",
            "users",
            "user-create",
            "projects",
            "presets",
            "preset-create",
            "workspaces",
            "queue",
            "audit",
            "groups",
            "group-create",
            "announcements",
            "announcement-create",
            "system",
        )
    ]
    found += screen_clusters.pages()
    found += screen_loads.pages(vision, loads)
    found += screen_volumes.pages(vision, volume)
    preset = Preset.objects.first()
    found += [
        ("olga", "console-user", url("console:user", user=who["alice"].uid)),
        ("olga", "console-limits", url("console:limits", uid=vision.uid)),
        ("olga", "console-preset", url("console:preset", preset=preset.uid) if preset else ""),
    ]
    return [{"user": user, "name": name, "url": place} for user, name, place in found if place]


def main() -> None:
    call_command("migrate", verbosity=0)
    call_command("createcachetable", verbosity=0)
    from notebooks.services.presets import ensure_default_presets

    Cluster.objects.get_or_create(key="local", defaults={"name": "gpu-01"})
    who = people()
    tenants = projects(who)
    made = workspaces(who, tenants)
    ensure_default_presets()
    screen_clusters.make(tenants["vision"])
    news(who, made)
    loads = screen_loads.make(tenants["vision"], who["alice"])
    volume = screen_volumes.make(tenants["vision"], who)
    shown = pages(who, made, loads, volume, tenants["vision"])
    json.dump({"password": PASSWORD, "pages": shown}, sys.stdout)


if __name__ == "__main__":
    main()
