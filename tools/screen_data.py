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
from clusters.models import Cluster  # noqa: E402
from common.clock import now  # noqa: E402
from events.services import record  # noqa: E402
from jobs.models import Job  # noqa: E402
from loaders.models import Load  # noqa: E402
from notebooks.models import Preset, Workspace  # noqa: E402
from notifications.models import Announcement, Notification  # noqa: E402
from projects.models import Membership, Project  # noqa: E402
from quotas.models import Limit  # noqa: E402
from tools import (  # noqa: E402
    screen_clusters,
    screen_credentials,
    screen_experiments,
    screen_fleet,
    screen_idle,
    screen_jobs,
    screen_loads,
    screen_perftests,
    screen_queues,
    screen_runs,
    screen_serving,
    screen_serving_many,
    screen_usage,
    screen_volumes,
    screen_webhooks,
    screen_workspaces,
)
from volumes.models import Volume  # noqa: E402

PASSWORD = "a-password-for-pictures"


def people() -> dict[str, User]:
    found = {}
    for username, name, role in (
        ("alice", "Alice Meyer", ""),
        ("bob", "Bob Tanaka", ""),
        ("mona", "Mona Okafor", ""),
        ("dora", "Dora Lind", ""),
        ("olga", "Olga Brandt", "operator"),
        ("kenji", "佐藤 健二・データ基盤チーム", ""),
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


def news(who: dict[str, User], made: dict[str, Workspace]) -> None:
    alice, olga = who["alice"], Principal(user=who["olga"], ip="192.0.2.7")

    for kind in ("project.added", "workspace.ending", "workspace.shared"):
        Notification.objects.create(
            user=alice,
            kind=kind,
            params={
                "name": "cell tracking" if kind != "project.added" else "Speech synthesis",
                "role": "member",
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
    jobs: dict[str, Job],
    volume: Volume,
    vision: Project,
) -> list[dict[str, Any]]:
    slug = {"project": vision.slug}
    found: list[tuple[str, str, str]] = [
        ("", "sign-in", url("account_login")),
        ("", "reset-password", url("account_reset_password")),
        ("", "sign-up", url("account_signup")),
        ("dora", "home-no-project", "/"),
        ("alice", "home", "/"),
        ("alice", "workspaces", url("notebooks:list", **slug)),
        ("alice", "launch", url("notebooks:new", **slug)),
    ]
    for state in ("starting", "pending", "running", "stopped", "failed", "bob"):
        name = "of-a-colleague" if state == "bob" else state
        row = {**slug, "workspace": made[state].short_id}
        found.append(("alice", f"workspace-{name}", url("notebooks:detail", **row)))
    asked = f"?act=delete&id={made['running'].short_id}&id={made['stopped'].short_id}"
    found.append(("alice", "workspaces-delete", url("notebooks:bulk", **slug) + asked))
    theirs = f"?act=stop&id={made['running'].short_id}&id={made['bob'].short_id}"
    found.append(("olga", "workspaces-stop-of-others", url("notebooks:bulk", **slug) + theirs))
    waits = url("console:queue-cancel", uid=made["pending"].uid)
    found.append(("olga", "console-queue-cancel", waits))
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
            "overview",
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
    found += screen_jobs.pages(vision, jobs)
    trial = next(iter(jobs.values()))
    searches = screen_experiments.make(vision, who["alice"], trial)
    found += screen_experiments.pages(vision, searches)
    left, parked = (
        make(vision, who["alice"]) for make in (screen_runs.make, screen_runs.make_parked)
    )
    found += screen_runs.pages(left, parked)
    measured = screen_perftests.make(vision, who["alice"])
    found += screen_perftests.pages(vision, measured)
    found += screen_serving.pages(vision, screen_serving.make(vision, who))
    found += screen_serving_many.pages(screen_serving_many.make(who["kenji"]))
    found += screen_loads.pages(vision, loads)
    found += screen_queues.pages()
    found += screen_usage.pages()
    found += screen_idle.pages(
        screen_idle.make({user.username: user for user in User.objects.all()})
    )
    found += screen_fleet.pages()
    found += screen_volumes.pages(vision, volume)
    found += screen_credentials.pages(vision, screen_credentials.make(vision, who["alice"]))
    found += screen_webhooks.pages(vision, screen_webhooks.make(vision, who["alice"]))
    preset = Preset.objects.first()
    found += [
        ("olga", "console-user", url("console:user", user=who["alice"].uid)),
        ("olga", "console-limits", url("console:limits", uid=vision.uid)),
        ("olga", "console-preset", url("console:preset", preset=preset.uid) if preset else ""),
    ]
    acts = {
        **screen_clusters.ACTS,
        **screen_experiments.ACTS,
        **screen_perftests.ACTS,
        **screen_jobs.ACTS,
        **screen_loads.ACTS,
        **screen_queues.ACTS,
    }
    acts |= screen_fleet.ACTS | screen_serving.ACTS
    return [
        {"user": user, "name": name, "url": place, "acts": acts.get(name, ())}
        for user, name, place in found
        if place
    ]


def main() -> None:
    call_command("migrate", verbosity=0)
    call_command("createcachetable", verbosity=0)
    from notebooks.services.presets import ensure_default_presets

    Cluster.objects.get_or_create(key="local", defaults={"name": "gpu-01"})
    who = people()
    tenants = projects(who)
    made = screen_workspaces.make(who, tenants)
    ensure_default_presets()
    screen_clusters.make(tenants["vision"])
    screen_queues.make(tenants, who)
    screen_usage.make(list(tenants.values()), [who["alice"], who["bob"], who["mona"]])
    news(who, made)
    loads = screen_loads.make(tenants["vision"], who["alice"])
    jobs = screen_jobs.make(tenants["vision"], who)
    volume = screen_volumes.make(tenants["vision"], who)
    screen_fleet.make()
    shown = pages(who, made, loads, jobs, volume, tenants["vision"])
    json.dump({"password": PASSWORD, "pages": shown}, sys.stdout)


if __name__ == "__main__":
    main()
