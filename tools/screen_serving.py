"""Models and endpoints in every state, with what was called, for the pictures."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from common.clock import now
from runtime.models import ObservedWorkload
from serving.latency import bucket_of
from serving.models import Calls, Endpoint, EndpointKey, Model, ModelVersion, Served
from usage.models import Interval
from volumes.models import Volume
from work.models import Step

if TYPE_CHECKING:
    from accounts.models import User
    from projects.models import Project

ACTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "endpoint-new": (
        ("type", "#id_name", "digits-of-the-course"),
        ("choose", "#id_model-list", "digits/v2"),
    ),
    "endpoint-new-other": (("choose", "#id_model-list", "*"), ("type", "#id_model", "digits/v9")),
    "endpoint-new-own": (("choose", "#id_model-list", ""),),
    "endpoint-new-wrong": (
        ("type", "#id_name", "digits-of-the-course"),
        ("choose", "#id_model-list", "*"),
        ("type", "#id_model", "digits/v99"),
        ("press", ".launch-starts .btn-primary"),
    ),
    "model-new-wrong": (
        ("type", "#id_model", "digits"),
        ("type", "#id_origin", "s3:bucket/digits"),
        ("press", "#version-fields > details > summary"),
        ("type", "#id_metrics", "accuracy"),
        ("press", "#version-foot .btn-primary"),
    ),
    "model-new-empty": (("press", "#version-foot .btn-primary"),),
    "batch-new-wrong": (
        ("type", "#id_model", "digits/v99"),
        ("type", "#id_input", "bucket/instances"),
        ("type", "#id_output", "volume:models/predictions"),
        ("press", ".card-footer .btn-primary"),
    ),
    "batch-new-coming": (
        ("type", "#id_model", "imported/v2"),
        ("type", "#id_input", "volume:models/instances"),
        ("type", "#id_output", "volume:models/predictions"),
        ("press", ".card-footer .btn-primary"),
    ),
    "batch-new-empty": (("press", ".card-footer .btn-primary"),),
    "endpoint-key-revoke": (("press", "[popovertarget^=revoke-]"),),
    "endpoint-promote": (("press", "[popovertarget=promote]"),),
    "endpoint-takeover": (("press", "[popovertarget=takeover-work]"),),
    "version-delete": (("press", "[popovertarget=delete-version]"),),
    "model-delete": (("press", "[popovertarget=delete-model]"),),
    "endpoint-key-new": (("press", "form .card-body > details > summary"),),
}
_STEPS = ("accepted", "placed", "starting", "ready", "running")
_IRIS = {
    "inputs": [
        {"name": "input", "datatype": "FP64", "shape": [-1, 4],
         "parameters": {"columns": ["sepal length", "sepal width", "petal length", "petal width"]}},
    ],
    "outputs": [{"name": "predict", "datatype": "INT64", "shape": [-1]}],
}  # fmt: skip
_MODELS = (
    ("digits", "sklearn", 0.004, "Handwritten digits, for the course."),
    ("churn", "lightgbm", 0.2, ""),
    ("cell-segmenter", "onnx", 1.4, "Nuclei in fluorescence images, 512 by 512."),
    ("assistant", "huggingface", 15.2, "Answers questions about the instruments."),
    ("protein-embedder-large", "pytorch", 11, ""),
)


def make(vision: Project, who: dict[str, User]) -> dict[str, Endpoint]:
    alice = who["alice"]
    volume = Volume.objects.create(
        project=vision, created_by=alice, name="models", phase="running", used_bytes=28 * 2**30
    )
    versions = _versions(vision, alice, volume)
    found = {
        "ready": endpoint(alice, vision, "digits", versions["digits", "v1"], min_replicas=1,
                           max_replicas=4, replicas=3, canary_percent=10),
        "asleep": endpoint(alice, vision, "churn", versions["churn", "v1"], phase="stopped",
                            desired="stopped", stop_reason="asleep", sleep_after_minutes=30),
        "starting": endpoint(who["bob"], vision, "segment-nuclei",
                              versions["cell-segmenter", "v1"], phase="starting"),
        "queued": endpoint(alice, vision, "assistant", versions["assistant", "v1"], gpus=1,
                            gpu_flavor="h100-80", phase="pending", reason="queued",
                            external_ref={"queue": {"position": 1, "lacking": ["gpus"]}}),
        "failed": endpoint(alice, vision, "embedder", versions["protein-embedder-large", "v1"],
                            phase="failed", reason="exited", stopped_at=now(),
                            message="The file is a TorchScript of PyTorch 2.9; this has 2.4"),
        "parked": endpoint(alice, vision, "reranker", versions["cell-segmenter", "v1"], gpus=1,
                            gpu_flavor="h100-80", phase="stopped", desired="stopped",
                            stop_reason="parked"),
        "stopped": endpoint(alice, vision, "churn-of-spring", versions["churn", "v1"],
                             phase="stopped", desired="stopped", stop_reason="user"),
        "waiting": endpoint(alice, vision, "imported", versions["imported", "v2"],
                             phase="pending", reason="data",
                             message="The files of imported/v2 are being brought."),
        "promoting": endpoint(alice, vision, "digits-promoted", versions["digits", "v1"],
                               canary_percent=100, promoting=True, max_replicas=4,
                               scaling_problem="The project may have no more than 64 CPUs."),
        "served": endpoint(alice, vision, "digits-of-spring", versions["digits", "v2"]),
        "own": endpoint(who["mona"], vision, "label-studio-backend", None,
                         image="registry.example.org/vision/labels:3", runtime="custom"),
        "long": endpoint(alice, vision, "tts-with-a-rather-long-name-that-still-fits", None,
                          image="registry.example.org/speech/text-to-speech:1.0.2",
                          runtime="custom"),
    }  # fmt: skip
    ready = found["ready"]
    canary = endpoint(alice, vision, "canary-of-digits", versions["digits", "v2"],
                       canary_of=ready)  # fmt: skip
    endpoint(
        alice, vision, "canary-promoted", versions["digits", "v2"], canary_of=found["promoting"]
    )
    late = endpoint(who["mona"], vision, "canary-of-labels", None, phase="failed",
                     reason="exited", message="Exit code 1", canary_of=found["own"],
                     image="registry.example.org/vision/labels:4", runtime="custom")  # fmt: skip
    seen(ready, 3)
    seen(late, 0)
    seen(found["promoting"], 2)
    seen(found["served"], 1)
    for hours, name, how in (
        (60, "v1", "deployed"),
        (30, "v2", "promoted"),
        (9, "v1", "rolled-back"),
        (2, "v2", "promoted"),
    ):
        Served.objects.create(
            endpoint=found["served"],
            launch=1,
            at=now() - timedelta(hours=hours),
            serves=f"digits/{name}",
            said={"model": f"digits/{name}"},
            how=how,
            by=alice,
        )
    keys = [
        _key(ready, alice, "web shop", 1, requests_per_second=50, concurrent=8),
        _key(ready, alice, "nightly report", 2, requests_per_day=20_000,
             expires_at=now() + timedelta(days=40)),
        _key(ready, alice, "old prototype", 3, revoked_at=now() - timedelta(days=9)),
    ]  # fmt: skip
    chance = random.Random(5)
    callers = [f"k{keys[0].pk}", f"k{keys[1].pk}", f"u{alice.pk}"]
    _called(ready, callers, chance, 400, 0.018)
    _called(canary, callers[:1], chance, 45, 0.025, days=1, fails=0.02)
    _called(found["asleep"], callers[2:], chance, 3, 0.2)
    _called(found["served"], callers[2:], chance, 90, 0.03)
    Interval.objects.create(
        uid=ready.uid, launch=1, kind="endpoint", name=ready.name, project_uid=vision.uid,
        project_slug=vision.slug, owner_uid=alice.uid, owner_name=alice.username,
        cluster_key="local", cpu_milli=3000, memory_mib=6144,
        started_at=now() - timedelta(days=12),
    )  # fmt: skip
    return found


def _versions(project: Project, owner: User, volume: Volume) -> dict[tuple[str, str], ModelVersion]:
    found = {}
    for name, framework, gib, about in _MODELS:
        model = Model.objects.create(
            project=project, name=name, description=about, created_by=owner
        )
        for number in (1, 2) if name == "digits" else (1,):
            word = f"v{number}"
            found[name, word] = ModelVersion.objects.create(
                model=model, name=word, framework=framework, source="volume", volume=volume,
                origin=f"volume:models/{name}/{word}", folder=f"{name}/{word}",
                size_bytes=round(gib * 2**30), created_by=owner, stage="serving",
                metrics={"accuracy": 0.961 + number / 100}, digest="sha256:" + "ab" * 32,
                signature=_IRIS if name == "digits" else {},
            )  # fmt: skip
    imported = Model.objects.create(project=project, name="imported", created_by=owner)
    for word, files, problem in (
        ("v1", "failed", "It has no file that is a model. Name the framework, or another folder."),
        ("v2", "coming", ""),
    ):
        found["imported", word] = ModelVersion.objects.create(
            model=imported, name=word, source="bucket", volume=volume, folder=f"imported/{word}",
            origin=f"gs://models-of-the-institute/imported/{word}", files=files, problem=problem,
            framework="onnx" if files == "coming" else "", created_by=owner,
        )  # fmt: skip
    found["imported", "v3"] = ModelVersion.objects.create(
        model=imported, name="v3", source="upload", volume=volume, folder="imported/v3",
        origin="upload:imported", files="coming", created_by=owner,
    )  # fmt: skip
    Model.objects.create(project=project, name="planned", created_by=owner)
    return found


def endpoint(
    owner: User, project: Project, name: str, version: ModelVersion | None, **columns: Any
) -> Endpoint:
    asked = now() - timedelta(hours=5)
    over = columns.get("phase") in {"stopped", "failed"}
    values: dict[str, Any] = {
        "version": version,
        "model": str(version or ""),
        "cpu_milli": 1000,
        "memory_mib": 2048,
        "launch": 1,
        "phase": "running",
        "generation": 1,
        "observed_generation": 1,
        "asked_at": asked,
        "started_at": None if columns.get("phase") == "pending" else asked + timedelta(seconds=4),
        "ready_at": asked + timedelta(seconds=9),
        "stopped_at": now() - timedelta(hours=1) if over else None,
        **columns,
    }
    row = Endpoint.objects.create(project=project, owner=owner, name=name, **values)
    for number, word in enumerate(_STEPS if row.phase == "running" else _STEPS[:2]):
        Step.objects.create(workload=row, launch=1, word=word, at=asked + timedelta(seconds=number))
    return row


def seen(row: Endpoint, count: int) -> None:
    """Write what the watch of the machine would have."""
    replicas = [
        {"index": n, "seen": "ready" if n < count - 1 else "starting", "node": f"a100-0{n + 1}",
         "restarts": int(n == 1), "started_at": (now() - timedelta(hours=5 - n)).timestamp(),
         "address": f"10.1.0.{n + 4}:8080"}
        for n in range(count)
    ]  # fmt: skip
    data = {"uid": str(row.uid), "seen": "ready", "launch": row.launch, "replicas": replicas}
    ObservedWorkload.objects.update_or_create(
        uid=row.uid,
        cluster_key=row.cluster_key,
        defaults={
            "kind": row.kind,
            "seen": "ready",
            "launch": row.launch,
            "data": data,
            "seen_at": now(),
        },
    )


def _key(row: Endpoint, owner: User, name: str, number: int, **columns: Any) -> EndpointKey:
    return EndpointKey.objects.create(
        endpoint=row, created_by=owner, name=name, prefix=f"bep_kX{number}aQp",
        digest=str(number) * 64, last_used_at=now() - timedelta(minutes=number * 3), **columns,
    )  # fmt: skip


def _called(
    row: Endpoint, callers: list[str], chance: random.Random, most: int, usual: float,
    *, days: int = 30, fails: float = 0.001,
) -> None:  # fmt: skip
    """Write 30 days by the hour and the last hours by the minute, as a day goes up and down."""
    minute = now().replace(second=0, microsecond=0)
    hour = minute.replace(minute=0)
    moments = [(minute - timedelta(minutes=ago), 1) for ago in range(150)]
    moments += [(hour - timedelta(hours=ago), 60) for ago in range(3, days * 24)]
    rows = []
    for at, minutes in moments:
        for share, caller in enumerate(callers, 1):
            requests = round(most * minutes * _of_day(at) / share * chance.uniform(0.6, 1.2))
            if requests:
                rows.append(_minute(row, at, caller, requests, usual, fails, chance))
    Calls.objects.bulk_create(rows)


def _of_day(at: datetime) -> float:
    return 0.35 + 0.65 * max(0.0, math.sin((at.hour + at.minute / 60 - 6) / 24 * 2 * math.pi))


def _minute(
    row: Endpoint, at: datetime, caller: str, requests: int, usual: float, fails: float,
    chance: random.Random,
) -> Calls:  # fmt: skip
    histogram: dict[str, int] = {}
    left = requests
    for times, part in ((1.0, 0.5), (1.3, 0.3), (2.0, 0.17), (6.0, 0.03)):
        count = min(left, math.ceil(requests * part))
        bucket = str(bucket_of(usual * times * chance.uniform(0.9, 1.15)))
        histogram[bucket] = histogram.get(bucket, 0) + count
        left -= count
    failed = round(requests * fails * chance.uniform(0, 2))
    return Calls(
        endpoint=row, minute=at, gateway="a", caller=caller, requests=requests,
        refused=chance.choice((0, 0, 0, 4)), client_errors=requests // 90, server_errors=failed,
        seconds=requests * usual * 1.4, histogram=histogram, bytes_in=requests * 310,
        bytes_out=requests * 120,
    )  # fmt: skip


def pages(vision: Project, rows: dict[str, Endpoint]) -> list[tuple[str, str, str]]:
    here = f"/projects/{vision.slug}/endpoints/"
    one = rows["ready"].get_absolute_url()
    return [
        ("alice", "endpoints", here),
        ("alice", "endpoint-catalogue", f"{here}catalogue/"),
        ("alice", "models", f"/projects/{vision.slug}/models/"),
        ("alice", "model", f"/projects/{vision.slug}/models/digits/"),
        *(("alice", name, f"/projects/{vision.slug}/models/new")
          for name in ("model-new", "model-new-wrong", "model-new-empty")),
        ("alice", "mlflow", f"/projects/{vision.slug}/models/mlflow"),
        ("alice", "model-compared",
         f"/projects/{vision.slug}/models/digits/?compare=v1&compare=v2"),
        ("alice", "model-not-there", f"/projects/{vision.slug}/models/imported/"),
        ("alice", "model-without-version", f"/projects/{vision.slug}/models/planned/"),
        ("alice", "models-no-match", f"/projects/{vision.slug}/models/?q=nothing"),
        ("alice", "models-none", "/projects/speech/models/"),
        ("alice", "batches-none", f"/projects/{vision.slug}/batch-predictions/"),
        *(("alice", name, f"/projects/{vision.slug}/batch-predictions/new")
          for name in ("batch-new", "batch-new-wrong", "batch-new-empty",
                       "batch-new-coming")),
        *(("alice", name, f"{here}new/")
          for name in ("endpoint-new", "endpoint-new-other", "endpoint-new-own",
                       "endpoint-new-wrong")),
        ("alice", "endpoint-promote", one),
        ("alice", "endpoint-key-revoke", f"{one}keys/"),
        ("alice", "endpoint-logs", f"{one}logs/"),
        ("alice", "endpoint-events", f"{one}events/"),
        ("alice", "endpoint-yaml", f"{one}yaml/"),
        ("alice", "endpoint-canary", f"{rows['stopped'].get_absolute_url()}canary/"),
        ("alice", "endpoint-keys-none", f"{rows['starting'].get_absolute_url()}keys/"),
        ("alice", "endpoint-requests-none", f"{rows['starting'].get_absolute_url()}requests/"),
        ("alice", "endpoint-try-asleep", f"{rows['asleep'].get_absolute_url()}try/"),
        ("alice", "endpoint-try-own", f"{rows['long'].get_absolute_url()}try/"),
        ("alice", "endpoints-delete", f"{here}act/?act=delete&id={rows['ready'].short_id}"),
        ("olga", "endpoint-try-of-others", f"{one}try/"),
        ("mona", "endpoint-takeover", rows["served"].get_absolute_url()),
        *((("mona" if name == "own" else "alice"), f"endpoint-{name}", row.get_absolute_url())
          for name, row in rows.items()),
        ("alice", "endpoint-requests", f"{one}requests/?span=month"),
        ("alice", "endpoint-requests-served",
         f"{rows['served'].get_absolute_url()}requests/?span=week"),
        ("alice", "endpoint-keys", f"{one}keys/"),
        ("alice", "endpoint-key-new", f"{one}keys/"),
        ("alice", "endpoint-try", f"{one}try/"),
        ("alice", "version", f"/projects/{vision.slug}/models/digits/v1"),
        ("alice", "version-of-a-canary", f"/projects/{vision.slug}/models/digits/v2"),
        ("alice", "version-not-there", f"/projects/{vision.slug}/models/imported/v1"),
        ("alice", "version-to-send", f"/projects/{vision.slug}/models/imported/v3"),
        ("alice", "version-delete", f"/projects/{vision.slug}/models/imported/v1"),
        ("alice", "model-delete", f"/projects/{vision.slug}/models/planned/"),
        ("olga", "version-of-others", f"/projects/{vision.slug}/models/digits/v1"),
        ("alice", "endpoint-canary-new", f"{rows['starting'].get_absolute_url()}canary/"),
        ("alice", "endpoint-settings", f"{one}settings/"),
        ("olga", "endpoint-of-others", one),
        ("alice", "endpoints-none", "/projects/speech/endpoints/"),
        ("alice", "endpoint-catalogue-none", "/projects/speech/endpoints/catalogue/"),
    ]  # fmt: skip
