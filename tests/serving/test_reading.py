"""A version is read by a job: what it tells, what a person wrote, and readings that end badly."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from accounts.services.tokens import token_create
from common.errors import Conflict, NotFound
from hubapi.services import derive
from jobs.models import Job
from jobs.runtime_spec import PURPOSE
from notifications.models import Notification
from projects.models import Membership
from quotas.models import Limit
from serving.choices import Source
from serving.models import ModelVersion
from serving.services import reading
from serving.services.model_rules import SIGNATURE_MOST
from serving.services.reading import version_read, versions_step
from serving.services.sources import Origin
from serving.services.versions import version_check, version_create

pytestmark = pytest.mark.django_db

VERSIONS = "/api/v1/projects/vision/models/digits/versions"
DIGEST, OTHER = (f"sha256:{letter * 64}" for letter in "ab")


def takes(count: int, **more: Any) -> dict[str, Any]:
    tensor = {"name": "input", "datatype": "FP32", "shape": [-1, count], **more}
    return {"inputs": [tensor], "outputs": []}


@pytest.fixture
def row(version: Any, data: Any) -> ModelVersion:
    made: ModelVersion = version(volume=data)
    return made


@pytest.fixture
def read(
    row: ModelVersion, api: Any, alice: Any, settle: Any, client: Any, settings: Any
) -> Callable[..., ModelVersion]:
    """Press once, and have the job tell so much, as its program does."""

    def press(meanwhile: Callable[[], None] = lambda: None, **told: Any) -> ModelVersion:
        begun = api(alice, "POST", f"{VERSIONS}/v1/read")
        assert (begun.status_code, begun.json()["read"]) == (202, "running"), begun.content
        row.refresh_from_db()
        job = settle(row.read_by)
        meanwhile()
        answer = client.post(
            f"/hub/api/berth/jobs/{job.uid}/report",
            json.dumps({"told": told}),
            content_type="application/json",
            headers={"Authorization": f"Bearer {derive(PURPOSE, job.uid, job.launch)}"},
            SERVER_PORT=str(settings.BERTH_INTERNAL_PORT),
        )
        assert answer.status_code == 200, answer.content
        row.refresh_from_db()
        return row

    return press


def ended(row: ModelVersion) -> None:
    """Have its job ended without another word."""
    assert row.read_by is not None
    Job.objects.filter(pk=row.read_by.pk).update(
        phase="failed", observed_generation=row.read_by.generation
    )


def test_what_a_person_wrote_stays_at_each_reading_and_what_was_found_is_found_anew(
    row: ModelVersion, read: Any
) -> None:
    ModelVersion.objects.filter(pk=row.pk).update(signature=takes(3))
    for count in (4, 5):
        assert read(digest=DIGEST, described=takes(count), done=True).signature == takes(3)
    ModelVersion.objects.filter(pk=row.pk).update(signature={})
    for count in (4, 5):
        assert read(digest=DIGEST, described=takes(count), done=True).signature == takes(count)


@pytest.mark.parametrize(
    "odd",
    [
        takes(1, shape=["n", 4]),
        takes(1, parameters={"columns": ["x" * SIGNATURE_MOST]}),
        takes(1, name="a\0b"),
        {"inputs": [7]},
    ],
)
def test_a_signature_that_mlflow_says_oddly_hinders_no_version(
    model: Any, alice: Any, principal: Any, credential: Any, odd: Any, data: Any
) -> None:
    credential("lake")
    del data

    def add(signature: Any) -> ModelVersion:
        found = Origin(Source.REGISTRY, url="s3://lake/m/", signature=signature)
        said = {"origin": "mlflow:team/digits/1", "credential": "lake"}
        return version_create(principal=principal(alice), model=model, said=said, found=found)

    row = add(odd)
    assert (row.signature, row.signature_found) == ({}, False)
    row = add(takes(4))
    assert (row.signature, row.signature_found) == (takes(4), True)


def test_one_of_many_columns_is_read_though_its_signature_is_too_long(read: Any) -> None:
    columns = [f"column {n}" for n in range(SIGNATURE_MOST // 8)]
    found = read(
        digest=DIGEST, described=takes(len(columns), parameters={"columns": columns}), done=True
    )
    assert (found.reading, found.read_problem, found.signature) == ("done", "", {})
    assert found.digest == DIGEST


def test_a_reading_that_dies_after_a_good_one_has_failed(read: Any) -> None:
    assert read(digest=DIGEST, done=True).reading == "done"
    ended(read(digest=DIGEST))
    assert ModelVersion.objects.get().reading == "failed"


def test_a_reading_takes_back_only_what_a_reading_said_of_the_files(
    row: ModelVersion, read: Any
) -> None:
    ModelVersion.objects.filter(pk=row.pk).update(problem="Its files have changed.")
    assert read(digest=DIGEST, done=True).problem == "Its files have changed."
    assert "not what was registered" in read(digest=OTHER, done=True).problem
    assert read(digest=DIGEST, done=True).problem == ""


def test_two_presses_at_once_begin_one_job(row: ModelVersion, alice: Any, principal: Any) -> None:
    """Both have looked before the first one began; and one of what is deleted begins none."""
    one, other = (ModelVersion.objects.select_related("model__project").get() for _ in "ab")
    version_read(principal=principal(alice), row=one)
    with pytest.raises(Conflict) as refused:
        version_read(principal=principal(alice), row=other)
    assert refused.value.code == "reading"
    assert Job.objects.count() == 1
    ended(one)
    ModelVersion.objects.all().delete()
    with pytest.raises(NotFound):
        version_read(principal=principal(alice), row=other)
    assert Job.objects.count() == 1


def test_what_it_told_is_kept_where_its_job_cant_be_deleted_any_more(read: Any, alice: Any) -> None:
    def leaves() -> None:
        Membership.objects.filter(user=alice).delete()

    assert read(leaves, digest=DIGEST, done=True).digest == DIGEST
    assert Job.objects.get().desired != "absent"


@pytest.fixture
def registered(
    model: Any, api: Any, look: Any, alice: Any, tmp_path: Any
) -> Callable[..., ModelVersion]:
    """Register files that are there, and let the worker have its turns."""

    def make(**said: Any) -> ModelVersion:
        folder = tmp_path / "data" / "m"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.joblib").write_bytes(b"\x80\x05")
        answer = api(alice, "POST", VERSIONS, {"origin": "volume:data/m", **said})
        assert answer.status_code == 202, answer.content
        row: ModelVersion = model.versions.get(name=answer.json()["name"])
        look()
        versions_step()
        row.refresh_from_db()
        assert (row.files, row.read_when_there) == ("there", False)
        return row

    return make


@pytest.mark.usefixtures("data")
def test_files_are_read_by_themselves_once_they_are_there(
    registered: Any, alice: Any, settle: Any
) -> None:
    row = registered()
    assert row.read_by is not None
    assert (row.reading, row.read_by.owner, row.read_by.cpu_milli) == ("running", alice, 500)
    settle(row.read_by)
    ended(row)
    assert not Notification.objects.exists()
    versions_step()
    assert Job.objects.count() == 1  # once


@pytest.mark.usefixtures("data")
def test_nothing_is_read_that_was_not_wanted_or_is_large(registered: Any, monkeypatch: Any) -> None:
    assert registered(read=False).reading == "no"
    monkeypatch.setattr(reading, "BY_ITSELF_MIB", 0)
    assert registered().reading == "no"
    assert not Job.objects.exists()


@pytest.mark.usefixtures("data")
def test_where_a_limit_or_a_right_lacks_the_button_stays_and_nothing_is_said(
    registered: Any, project: Any, alice: Any
) -> None:
    Limit.objects.create(project=project, resource="cpu_milli", amount=100)
    row = registered()
    assert (row.reading, row.read_problem, row.problem) == ("no", "", "")
    assert not Job.objects.exists()
    assert not Notification.objects.exists()


MODELS_ONLY = ["project:read", "model:read", "model:manage", "volume:read", "volume:use"]


@pytest.mark.usefixtures("data")
def test_a_token_for_models_alone_begins_no_job_in_its_persons_name(
    model: Any, look: Any, alice: Any, principal: Any, tmp_path: Any
) -> None:
    """Neither by registering nor by asking for another look at what a person registered."""
    folder = tmp_path / "data" / "m"
    folder.mkdir(parents=True)
    (folder / "model.joblib").write_bytes(b"\x80\x05")
    token, _secret = token_create(who=principal(alice), name="ci", scopes=MODELS_ONLY)
    limited, said = principal(alice, token), {"origin": "volume:data/m"}
    row = version_create(principal=limited, model=model, said=said)
    assert not row.read_when_there
    row = version_create(principal=principal(alice), model=model, said=said)
    ModelVersion.objects.filter(pk=row.pk).update(look_at=None)  # as one that is still sent
    assert row.read_when_there
    version_check(principal=limited, row=row)
    look()
    versions_step()
    assert set(model.versions.values_list("files", flat=True)) == {"there"}
    assert not Job.objects.exists()
