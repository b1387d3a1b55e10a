"""Volumes in every state, for the pictures (tools/screen_data.py)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from clusters.models import Cluster
from common.clock import now
from projects.models import Project
from volumes.models import ClassPlace, Volume, VolumeClass, VolumeSnapshot, VolumeTransfer
from volumes.services.classes import default_class
from volumes.services.homes import backing_columns

if TYPE_CHECKING:
    from accounts.models import User

GIB = 2**30


def make(vision: Project, who: dict[str, User]) -> Volume:
    """Return the one whose pages are taken: mounted by a workspace, with copies."""
    kind = default_class("local")
    if kind is not None:
        VolumeClass.objects.filter(pk=kind.pk).update(
            medium="nvme", speed="3 GB/s", price="0.02", description="Folders of this machine."
        )
        archive = VolumeClass.objects.create(
            key="archive", name="Archive", medium="hdd", backing_kind="directory", price="0.004"
        )
        cluster = Cluster.objects.get(key="local")
        ClassPlace.objects.create(volume_class=archive, cluster=cluster)
    alice = who["alice"]
    main = _volume(vision, alice, "cells-2026", 400, 147, description="Raw microscopy, plates 1-40")
    _volume(vision, alice, "checkpoints", 100, 97, write_policy="managers")
    _volume(vision, who["bob"], "full-scratch", 20, 20)
    _volume(
        vision,
        who["bob"],
        "old-experiments",
        50,
        12,
        desired="absent",
        phase="stopped",
        delete_requested_at=now() - timedelta(days=2),
        delete_after=now() + timedelta(days=5),
    )
    for name, size in (("before-cleaning", 120), ("2026-11-20-0300", 146)):
        VolumeSnapshot.objects.create(
            volume=main,
            name=name,
            created_by=alice,
            phase="running",
            observed_generation=1,
            size_bytes=size * GIB,
        )
    _offered(vision, who)
    return main


def _volume(project: Project, maker: User, name: str, size: int, used: int, **more: Any) -> Volume:
    kind = default_class("local")
    return Volume.objects.create(
        project=project,
        created_by=maker,
        kind="data",
        name=name,
        volume_class=kind,
        size_limit_mib=size * 1024,
        used_bytes=used * GIB,
        used_at=now() - timedelta(minutes=3),
        last_used_at=now() - timedelta(hours=2),
        last_used_by=maker,
        abilities={"snapshot": True, "move": True},
        observed_generation=1,
        **{"phase": "running", **backing_columns(kind), **more},
    )


def _offered(vision: Project, who: dict[str, User]) -> None:
    source = Project.objects.exclude(pk=vision.pk).first()
    if source is None:
        return
    row = _volume(source, who["bob"], "speech-corpus", 200, 180)
    VolumeTransfer.objects.create(
        volume=row,
        from_project=source,
        to_project=vision,
        to_slug=vision.slug,
        message="As agreed on Thursday.",
        asked_by=who["bob"],
        asked_at=now(),
        expires_at=now() + timedelta(days=6),
    )


def pages(vision: Project, main: Volume) -> list[tuple[str, str, str]]:
    slug = {"project": vision.slug}
    one = {**slug, "volume": main.uid}
    gone = Volume.objects.get(project=vision, name="old-experiments")
    return [
        ("alice", "volume-new", reverse("volumes:create", kwargs=slug)),
        ("alice", "volume", reverse("volumes:detail", kwargs=one)),
        ("alice", "volume-deleted", reverse("volumes:detail", kwargs={**slug, "volume": gone.uid})),
        *(
            ("alice", f"volume-tab-{tab}", reverse(f"volumes:{tab}", kwargs=one))
            for tab in ("snapshots", "events", "yaml", "settings")
        ),
        ("olga", "console-storage", reverse("console:volume-classes")),
        ("olga", "console-storage-class", reverse("console:volume-class-create")),
    ]
