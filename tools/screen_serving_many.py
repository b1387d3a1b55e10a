"""A project with 200 of everything that serves, in Japanese, for the pictures."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from django.db import transaction

from common.clock import now
from jobs.models import Job, Told
from projects.models import Membership, Project
from serving.latency import bucket_of
from serving.models import BatchPrediction, Calls, Endpoint, EndpointKey, Model, ModelVersion
from serving.services.batch import PROGRAM
from volumes.models import Volume

if TYPE_CHECKING:
    from accounts.models import User

MANY = 200
_FRAMEWORKS = ("sklearn", "xgboost", "lightgbm", "onnx", "tensorflow", "pytorch")
_ABOUT = (
    "東日本第二営業本部の店舗別・商品別の需要を、天候と販促の予定から一週間先まで予測します。"
    "学習データは毎朝五時に更新されます。"
)
# (columns of its row) by turns
_STATES: tuple[dict[str, Any], ...] = (
    {"phase": "running"},
    {"phase": "running"},
    {"phase": "stopped", "desired": "stopped", "stop_reason": "asleep", "sleep_after_minutes": 30},
    {"phase": "stopped", "desired": "stopped", "stop_reason": "parked", "gpus": 1},
    {"phase": "failed", "reason": "exited", "message": "モデルのファイルを読み込めません"},
    {"phase": "pending", "reason": "queued", "gpus": 2, "gpu_flavor": "h100-80",
     "external_ref": {"queue": {"position": 3, "lacking": ["gpus"]}}},
    {"phase": "starting"},
    {"phase": "stopped", "desired": "stopped", "stop_reason": "user"},
)  # fmt: skip
_WHY = [
    ["X has 3 features, but LogisticRegression is expecting 4 features as input.", 7],
    ["could not convert string to float: …", 4],
    ["", 1],
]
_JOBS: tuple[tuple[dict[str, Any], list[Any] | None], ...] = (
    ({"phase": "running"}, [0.4271, 427_100, 12]),
    ({"phase": "stopped", "reason": "finished", "exit_code": 0}, [1.0, 1_000_000, 12, _WHY]),
    ({"phase": "failed", "reason": "exit", "exit_code": 65}, None),
    ({"phase": "pending", "reason": "queued"}, None),
)


@transaction.atomic
def make(kenji: User) -> dict[str, str]:
    """Return addresses: of the model with many versions, and of the endpoint with many keys."""
    project = Project.objects.create(
        slug="demand",
        name="需要予測・在庫最適化・東日本第二営業本部データ活用推進室",
        phase="running",
    )
    Membership.objects.create(project=project, user=kenji, role="owner")
    volume = Volume.objects.create(
        project=project, created_by=kenji, name="models", phase="running", used_bytes=2**40
    )
    dice = Random(3)
    versions = [_version(project, kenji, volume, number) for number in range(MANY)]
    first = versions[0].model
    ModelVersion.objects.bulk_create(
        ModelVersion(
            model=first, name=f"v{number}", framework="sklearn", source="run", volume=volume,
            folder=f"out/{number}", origin=f"run:nightly-demand/{number}", size_bytes=number * 9000,
            stage="retired" if number < MANY - 20 else "candidate", created_by=kenji,
            metrics={"平均絶対誤差": round(3 - number / 100, 3), "accuracy": 0.9 + number / 4000},
        )
        for number in range(2, MANY + 1)
    )  # fmt: skip
    rows = [_endpoint(project, kenji, versions[number], number) for number in range(MANY)]
    minute = now().replace(second=0, microsecond=0) - timedelta(minutes=1)
    Calls.objects.bulk_create(
        Calls(
            endpoint=row, minute=minute, gateway="a", caller=f"u{kenji.pk}", seconds=9.0,
            requests=dice.randint(5, 90_000), server_errors=dice.choice((0, 0, 0, 3)),
            histogram={str(bucket_of(dice.uniform(0.004, 0.9))): 100},
        )
        for row in rows
        if row.phase == "running"
    )  # fmt: skip
    EndpointKey.objects.bulk_create(
        EndpointKey(
            endpoint=rows[0], created_by=kenji, prefix=f"bep_{number:04}", digest=f"{number:064}",
            name=f"店舗端末・東京都千代田区丸の内一丁目・第{number}号機",
            requests_per_second=number % 50,
            expires_at=now() + timedelta(days=number - 10) if number % 3 else None,
        )
        for number in range(MANY)
    )  # fmt: skip
    batches = [_batch(project, kenji, versions[number % 7], number) for number in range(MANY)]
    BatchPrediction.objects.filter(pk=batches[3].pk).update(errors_of=batches[1])
    return {
        "model": first.get_absolute_url(),
        "endpoint": rows[0].get_absolute_url(),
        **{f"batch-{name}": batches[number].get_absolute_url()
           for number, name in enumerate(("running", "errors", "failed", "again"))},
    }  # fmt: skip


def _version(project: Project, owner: User, volume: Volume, number: int) -> ModelVersion:
    about = _ABOUT if number % 3 == 0 else ""
    model = Model.objects.create(
        project=project, name=f"demand-store-{number:03}", description=about, created_by=owner
    )
    return ModelVersion.objects.create(
        model=model, name="v1", framework=_FRAMEWORKS[number % len(_FRAMEWORKS)], source="volume",
        origin=f"volume:models/{model.name}/v1", volume=volume, folder=f"{model.name}/v1",
        size_bytes=(number + 1) * 7_000_000, created_by=owner, stage="serving",
        metrics={"平均絶対誤差": 2.5},
    )  # fmt: skip


def _endpoint(project: Project, owner: User, version: ModelVersion, number: int) -> Endpoint:
    asked = now() - timedelta(hours=number)
    name = f"demand-store-{number:03}"
    values: dict[str, Any] = {
        "launch": 1, "generation": 1, "observed_generation": 1, "cpu_milli": 1000,
        "memory_mib": 2048, "asked_at": asked, "started_at": asked, "ready_at": asked,
        **_STATES[number % len(_STATES)],
    }  # fmt: skip
    return Endpoint.objects.create(
        project=project, owner=owner, name=name, version=version, model=str(version), **values
    )


def _batch(project: Project, owner: User, version: ModelVersion, number: int) -> BatchPrediction:
    columns, told = _JOBS[number % len(_JOBS)]
    asked = now() - timedelta(hours=number, minutes=7)
    job = Job.objects.create(
        project=project, owner=owner, name=f"夜間の一括予測・全店舗・全商品その{number}",
        environment="jupyterlab", command=[*PROGRAM], launch=1, generation=1,
        observed_generation=1, asked_at=asked, started_at=asked, **columns,
    )  # fmt: skip
    if told:
        marks = [[0, 1, [[400_000, 1_000], [420_000, 41_000]], [told[1], 58_000, 0]]]
        Told.objects.create(job=job, launch=1, state={"progress": told, "starts": marks})
    endpoint = Endpoint.objects.filter(version=version).first() if number % 3 else None
    return BatchPrediction.objects.create(
        project=project, job=job, version=version, endpoint=endpoint,
        asked=endpoint.name if endpoint else str(version),
        said={"endpoint": endpoint.name} if endpoint else {},
        input=f"volume:data/nightly/2026-11-{number % 28 + 1:02}",
        output=f"gs://predictions-of-the-second-division/nightly/{number}",
    )  # fmt: skip


def pages(known: dict[str, str]) -> list[tuple[str, str, str]]:
    here = "/projects/demand"
    return [
        ("kenji", "many-home", "/"),
        ("kenji", "many-endpoints", f"{here}/endpoints/"),
        ("kenji", "many-endpoints-failed", f"{here}/endpoints/?state=failed&sort=name"),
        ("kenji", "many-endpoint", known["endpoint"]),
        ("kenji", "many-endpoint-keys", f"{known['endpoint']}keys/"),
        ("kenji", "many-endpoint-new", f"{here}/endpoints/new/"),
        ("kenji", "many-catalogue", f"{here}/endpoints/catalogue/"),
        ("kenji", "many-models", f"{here}/models/"),
        ("kenji", "many-model", known["model"]),
        ("kenji", "many-batches", f"{here}/batch-predictions/"),
        ("kenji", "many-batch-new", f"{here}/batch-predictions/new"),
        *(("kenji", name, address) for name, address in known.items() if "batch" in name),
    ]
