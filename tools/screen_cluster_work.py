"""Work on clusters for pictures: a container in each state, and kubeconfigs of its project."""

from datetime import timedelta
from typing import Any, NamedTuple

from django.urls import reverse

from accounts.models import User
from clusters.models import Cluster
from common.clock import now
from hubapi.models import Activity
from metrics.models import Quiet, Sample
from notebooks.models import Preset, Workspace
from projects.models import KubeGrant, Project, ProjectNamespace
from runtime.models import ObservedWorkload
from volumes.models import Volume
from work.models import Step

IMAGE = "registry.example.org/vision-lab/microscopy-segmentation-training:2026.10-py312-cuda12"
DIGEST = "sha256:" + "9f86d081884c7d65" * 4
PORTS = [
    {"port": 7860, "name": "demo", "web": True},
    {"port": 6006, "name": "tensorboard", "web": True},
    {"port": 5432, "name": "db", "web": False},
]
# name, phase, reason, what was said, the steps so far (word, seconds, message)
STATES: tuple[tuple[str, str, str, str, tuple[tuple[str, float, str], ...]], ...] = (
    (
        "segmentation-service",
        "running",
        "",
        "",
        (
            ("accepted", 0, ""),
            ("placed", 0.1, ""),
            ("scheduled", 0.3, "a100-02"),
            ("starting", 0.4, ""),
            ("image", 48, ""),
            ("ready", 6, ""),
            ("running", 0.1, ""),
        ),
    ),
    (
        "pretraining-sweep",
        "starting",
        "pulling",
        "",
        (("accepted", 0, ""), ("placed", 0.1, ""), ("scheduled", 0.3, "h100-04")),
    ),
    (
        "eight-cards-" + "x" * 51,  # as long as a name may be, with no place to break it
        "pending",
        "nodes-full",
        "",
        (("accepted", 0, ""), ("placed", 0.1, "")),
    ),
    (
        "mistyped-image",
        "failed",
        "image-not-found",
        f"{IMAGE}-typo: manifest unknown: the named manifest is not known to the registry",
        (("accepted", 0, ""), ("placed", 0.1, ""), ("scheduled", 0.3, "a2-01"), ("failed", 31, "")),
    ),
)


class Holding(NamedTuple):
    """Work on a node; use of its GPUs in percent now and half an hour ago, None: not told."""

    name: str
    owner: str
    node: str
    gpus: int
    use: float | None = None
    before: float | None = None
    idle: int = 0  # minutes


HOLDINGS = (
    Holding("protein-folding", "bob", "h100-01", 8, 97, 94),
    Holding("ablation-of-the-tokenizer", "alice", "h100-02", 4, 71, 12),
    Holding("left-open-since-monday", "bob", "h100-02", 2, 0, 0, idle=48),
    Holding("interpretability", "alice", "h100-02", 1),
    Holding("evaluation", "bob", "t4-03", 1, before=35),
)


def make(vision: Project, east: Cluster) -> None:
    """Write work of alice on ``east``, as the engine would leave it."""
    alice = User.objects.get(username="alice")
    home = Volume.objects.create(
        project=vision,
        owner=alice,
        kind="home",
        name="home-alice-east",
        cluster_key=east.key,
        phase="running",
        observed_generation=1,
    )
    for name, phase, reason, message, steps in STATES:
        row = _workspace(alice, vision, home, name, phase, reason=reason, message=message)
        if reason == "pulling":
            pull = {"since": (now() - timedelta(seconds=80)).timestamp(), "bytes": 4_509_715_661}
            Workspace.objects.filter(pk=row.pk).update(external_ref={"pull": pull})
        at = row.asked_at or now()
        for word, seconds, said in steps:
            at += timedelta(seconds=seconds)
            Step.objects.create(workload=row, launch=1, word=word, at=at, message=said)
    _kubeconfigs(vision, east, alice)
    for holding in HOLDINGS:
        _hold(vision, home, holding)


def _hold(project: Project, home: Volume, it: Holding) -> None:
    """Write work that holds GPUs of a node, and how they are used."""
    since = now() - timedelta(hours=5)
    row = Workspace.objects.create(
        owner=User.objects.get(username=it.owner),
        project=project,
        home=home,
        name=it.name,
        phase="running",
        cluster_key=home.cluster_key,
        gpus=it.gpus,
        gpu_flavor="t4" if it.node.startswith("t4") else "h100-80",
        cpu_milli=8_000 * it.gpus,
        memory_mib=65_536 * it.gpus,
        observed_generation=1,
        launch=1,
        phase_since=since,
        asked_at=since,
        ready_at=since,
    )
    _seen(row, it.node)
    for minutes, share in ((30, it.before), (0, it.use)):
        if share is not None:
            at = now() - timedelta(minutes=minutes)
            Sample.objects.create(uid=row.uid, at=at, gpu_utilisation=share)
    if it.idle:
        last = now() - timedelta(minutes=it.idle)
        Activity.objects.create(uid=row.uid, polled_at=now(), last_activity=last)
        Quiet.objects.create(uid=row.uid, known_at=now(), since=last)


def _seen(row: Workspace, node: str) -> None:
    ObservedWorkload.objects.create(
        cluster_key=row.cluster_key,
        uid=row.uid,
        kind="workspace",
        seen="ready",
        launch=1,
        data={"detail": {"node": node, "pod": f"ws-{row.short_id}-0"}},
        seen_at=now(),
    )


def _workspace(
    owner: User, project: Project, home: Volume, name: str, phase: str, **said: Any
) -> Workspace:
    since = now() - timedelta(minutes=1 if phase == "starting" else 95)
    running = phase == "running"
    row = Workspace.objects.create(
        owner=owner,
        project=project,
        home=home,
        name=name,
        phase=phase,
        variant="container",
        cluster_key=home.cluster_key,
        image=IMAGE,
        image_digest=DIGEST,
        command=["python", "-m", "service.main"],
        args=["--checkpoint", "/home/alice/checkpoints/latest.pt", "--batch-size", "64"],
        ports=PORTS,
        preset=Preset.objects.filter(gpus__gt=0).first(),
        gpus=8 if phase == "pending" else 2,
        gpu_flavor="a100-80",
        cpu_milli=32_000,
        memory_mib=262_144,
        shm_mib=65_536,
        network="rdma",
        desired="running",
        generation=1,
        observed_generation=1,
        launch=1,
        phase_since=since,
        asked_at=since,
        started_at=since if phase != "pending" else None,
        ready_at=since + timedelta(seconds=55) if running else None,
        time_limit_minutes=720,
        ends_at=since + timedelta(minutes=720) if running else None,
        **said,
    )
    if running:
        _seen(row, "a100-02")
    return row


def _kubeconfigs(vision: Project, east: Cluster, alice: User) -> None:
    place = ProjectNamespace.objects.create(
        project=vision,
        cluster_key=east.key,
        namespace="berth-vision-3f9a2c",
        phase="running",
        observed_generation=1,
    )
    for who, kind, name in (
        (alice, "exec", "laptop"),
        (alice, "token", "nightly evaluation on the build server"),
        (User.objects.get(username="bob"), "exec", "workstation"),
    ):
        KubeGrant.objects.create(
            place=place,
            user=who,
            kind=kind,
            name=name,
            created_at=now() - timedelta(days=2),
            expires_at=now() + (timedelta(days=88) if kind == "exec" else timedelta(hours=6)),
            last_used_at=now() - timedelta(minutes=7) if kind == "exec" else None,
            last_used_ip="192.0.2.14" if kind == "exec" else "",
        )


def pages() -> list[tuple[str, str, str]]:
    """Return (user, name, address) of the pages about work on clusters."""
    found = []
    for name, phase, *_rest in STATES:
        row = Workspace.objects.get(name=name)
        where = {"project": "vision", "workspace": row.short_id}
        found.append(("alice", f"cluster-work-{phase}", reverse("notebooks:detail", kwargs=where)))
        if phase == "running":
            found += [
                ("alice", f"cluster-work-{part}", reverse(f"gate:{part}", kwargs=where))
                for part in ("terminal", "files", "objects")
            ]
            place = reverse("notebooks:settings", kwargs=where)
            found.append(("alice", "cluster-work-settings", place))
    launch = reverse("notebooks:new", kwargs={"project": "vision"})
    return [
        *found,
        ("alice", "launch-container", launch),
        ("alice", "project-kubectl", reverse("projects:kubectl", args=["vision"])),
        ("alice", "settings-kubeconfigs", reverse("projects:kubeconfigs")),
    ]


# The launch form as it is for a container on a cluster, with what is seldom said.
ACTS: dict[str, list[tuple[str, ...]]] = {
    "launch-container": [
        ("choose", "[name=cluster]", "east"),
        ("press", "[name=kind][value=container]"),
        ("type", "[name=image]", IMAGE),
        ("press", ".launch-less > summary"),
    ],
}
