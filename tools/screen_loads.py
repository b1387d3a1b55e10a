"""Loads in every state, for the pictures (tools/screen_data.py)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from common.clock import now
from loaders.models import Load, LoadRun, RunLog
from volumes.services.create import project_volume_ensure

if TYPE_CHECKING:
    from accounts.models import User
    from projects.models import Project

GIB = 2**30
_ERRORS = [
    {"key": "labels/../../etc/passwd", "code": "bad-key", "message": "“..” leads elsewhere."},
    {"key": "images/cell-00417.tif", "code": "checksum", "message": ""},
]


def _load(owner: User, project: Project, name: str, **columns: Any) -> Load:
    volume = project_volume_ensure(principal=None, project=project)
    asked = now() - timedelta(minutes=columns.pop("minutes", 6))
    values: dict[str, Any] = {
        "anonymous": True,
        "store_kind": "s3",
        "bucket": "open-microscopy",
        "prefix": f"{name}/",
        "folder": f"data/{name}",
        "fingerprint": name,
        "launch": 1,
        "phase": "running",
        "observed_generation": 1,
        "asked_at": asked,
        "started_at": asked,
        "reported_at": now(),
        "listed": True,
        "files_found": 12_480,
        "bytes_found": 96 * GIB,
        **columns,
    }
    row = Load.objects.create(project=project, owner=owner, name=name, volume=volume, **values)
    for number in range(1, row.launch):
        LoadRun.objects.create(
            load=row, launch=number, task=row.task, asked_at=asked, result="paused", code="paused"
        )
    run = LoadRun.objects.create(
        load=row,
        launch=row.launch,
        task=row.task,
        started_by=owner,
        asked_at=asked,
        started_at=asked,
        ended_at=row.stopped_at,
        result=row.result,
        code=row.result_code,
        files_done=row.files_done,
        files_failed=row.files_failed,
        bytes_done=row.bytes_done,
    )
    if row.result:
        RunLog.objects.create(run=run, start=0, data=_wrote(row, asked).encode())
    return row


def _wrote(row: Load, began: datetime) -> str:
    way = f"from s3 bucket {row.bucket}, below “{row.prefix}” to folder “{row.folder}”"
    lines = (
        f"run {row.launch}: copy, {way}",
        "the store is at its provider's own address, asked as nobody",
        "2 cores, up to 3 lanes for large objects, no limit of bandwidth",
        "now listing",
        "a page of the listing: 1,000 objects",
        "now copying",
        "the listing is complete: 12,480 files, 96.0 GiB",
        "the store asks for fewer calls: 16 at once from now on",
        "a call is tried again in 0.3 s: The store asks for fewer calls.",
        *(f"{e['key']}: {e['code']}: {e['message']}" for e in row.errors),
        f"{row.result}: {row.files_done} files copied",
    )
    at = began.strftime("%Y-%m-%dT%H:%M")
    return "".join(f"{at}:{n:02d}Z {line}\n" for n, line in enumerate(lines))


def make(vision: Project, alice: User) -> dict[str, Load]:
    ended = {"phase": "stopped", "stopped_at": now(), "stage": "ended"}
    return {
        "running": _load(
            alice,
            vision,
            "cells-2026",
            stage="copying",
            files_done=7_311,
            bytes_done=57 * GIB,
            bytes_read=57 * GIB,
            rate_bytes_s=118 * 2**20,
            eta_s=338,
            concurrency=32,
            verified={"crc64nvme": 7_311},
            schedule="30 2 * * *",
            time_zone="Asia/Tokyo",
            next_run_at=now() + timedelta(hours=9),
        ),
        "waiting": _load(
            alice,
            vision,
            "embryos",
            phase="pending",
            reason="queued",
            external_ref={"turn": {"bound": 4, "position": 1}},
            started_at=None,
            files_found=0,
            bytes_found=0,
            listed=False,
        ),
        "partial": _load(
            alice,
            vision,
            "annotations",
            minutes=190,
            launch=2,
            result="partial",
            result_code="partial",
            files_done=12_478,
            files_skipped=1,
            files_failed=1,
            bytes_done=95 * GIB,
            errors=_ERRORS,
            verified={"md5": 12_478},
            **ended,
        ),
        "done": _load(
            alice,
            vision,
            "weights",
            minutes=2_000,
            result="done",
            result_code="done",
            files_done=12_480,
            bytes_done=96 * GIB,
            loaded_at=now(),
            verified={"sha256": 12_480},
            **ended,
        ),
        "counted": _load(
            alice,
            vision,
            "archive",
            task="dry-run",
            result="done",
            result_code="done",
            dry_run={"files": 12_480, "bytes": 96 * GIB, "seconds": 840, "skipped": 0, "at": ""},
            **ended,
        ),
    }


# The form with a cache as its target, and with a refusal at its field.
ACTS: dict[str, list[tuple[str, ...]]] = {
    "load-new-cache": [
        ("type", "[name=url]", "s3://open-microscopy/cells"),
        ("choose", "[name=volume]", "cache:interconnect"),
    ],
    "load-new-refused": [
        ("type", "[name=url]", "s3://open-microscopy/cells"),
        ("choose", "[name=volume]", "cache:interconnect"),
        ("press", "[name=start][value=load]"),
    ],
}


def pages(vision: Project, made: dict[str, Load]) -> list[tuple[str, str, str]]:
    slug = {"project": vision.slug}
    found = [
        ("alice", "loads", reverse("loaders:list", kwargs=slug)),
        *(("alice", name, reverse("loaders:new", kwargs=slug)) for name in ("load-new", *ACTS)),
    ]
    found += [
        ("alice", f"load-{word}", reverse("loaders:detail", kwargs={**slug, "load": row.uid}))
        for word, row in made.items()
    ]
    one = {**slug, "load": made["partial"].uid}
    found += [
        ("alice", f"load-tab-{tab}", reverse(f"loaders:{tab}", kwargs=one))
        for tab in ("logs", "events", "history", "yaml", "settings")
    ]
    return found
