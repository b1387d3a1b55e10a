"""Volumes in every state, for the pictures (tools/screen_data.py)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from clusters.models import Cluster
from common.clock import now
from projects.models import Project
from volumes.models import (
    ClassPlace,
    Volume,
    VolumeClass,
    VolumeDay,
    VolumeSnapshot,
    VolumeTransfer,
)
from volumes.services.classes import default_class
from volumes.services.create import backing_columns

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
    _days(main)
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
    _on_cluster(vision, alice)
    return main


def _days(row: Volume) -> None:
    """Filled by loads, cleaned once, made larger once; not measured for some days."""
    today, before_cleaning, smaller = now().date(), range(21, 35), range(50, 75)
    for ago in (*range(40), *range(43, 75)):
        used = 147 - ago * 2 + (60 if ago in before_cleaning else 0)
        VolumeDay.objects.create(
            volume=row,
            project=row.project,
            day=today - timedelta(days=ago),
            used_bytes=max(3, used) * GIB,
            size_limit_mib=(200 if ago in smaller else 400) * 1024,
        )


def _on_cluster(vision: Project, alice: User) -> None:
    """Near a pool, as a cluster measures them: nearly full, over it, and a cache of a source."""
    east = Cluster.objects.get(key="east")
    kind = VolumeClass.objects.create(
        key="fabric-nfs",
        name="Fabric NFS",
        medium="nvme",
        speed="12 GB/s inside the fabric",
        price="0.05",
        backing_kind="nfs",
        options={"server": "nfs.example.org", "export": "/fabric"},
        max_size_mib=4 * 1024 * 1024,
    )
    place = ClassPlace.objects.create(volume_class=kind, cluster=east, is_default=True)
    place.near.set(east.pools.all())
    there = {"volume_class": kind, "cluster_key": "east", **backing_columns(kind)}
    _volume(vision, alice, "nearly-full", 400, 371, nearly_full_at=now(), **there)
    _volume(vision, alice, "over-full", 200, 214, used_at_least=True, **there)
    source = {"cache_of": "s3://open-microscopy/embryos", "cache_mark": "0" * 64}
    _volume(vision, alice, "cache-open-microscopy-embryos", 100, 41, **source, **there)


def _volume(project: Project, maker: User, name: str, size: int, used: int, **more: Any) -> Volume:
    kind = default_class("local")
    return Volume.objects.create(
        project=project,
        created_by=maker,
        kind="data",
        name=name,
        size_limit_mib=size * 1024,
        used_bytes=used * GIB,
        used_at=now() - timedelta(minutes=3),
        last_used_at=now() - timedelta(hours=2),
        last_used_by=maker,
        abilities={"snapshot": True, "move": True},
        observed_generation=1,
        **{"phase": "running", "volume_class": kind, **backing_columns(kind), **more},
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
            for tab in ("snapshots", "events", "usage", "yaml", "settings")
        ),
        *(
            ("alice", f"volume-{name}", reverse("volumes:detail", kwargs={**slug, "volume": uid}))
            for name, uid in Volume.objects.filter(cluster_key="east").values_list("name", "uid")
        ),
        ("olga", "console-storage-class-of-one", _class_page("fabric-nfs")),
        ("olga", "console-storage", reverse("console:volume-classes")),
        ("olga", "console-storage-class", reverse("console:volume-class-create")),
    ]


def _class_page(key: str) -> str:
    return reverse("console:volume-class", kwargs={"volume_class": key})
