"""Models and versions: what is registered, from where, by whom, and what stands in its way."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from serving.models import Model, ModelVersion

pytestmark = pytest.mark.django_db

MODELS = "/api/v1/projects/vision/models"
VERSIONS = f"{MODELS}/digits/versions"


@pytest.fixture
def digits(api: Any, alice: Any, project: Any) -> str:
    del project
    answer = api(alice, "POST", MODELS, {"name": "digits", "description": "Which digit it is"})
    assert answer.status_code == 201, answer.content
    return "digits"


@pytest.fixture
def add(api: Any, alice: Any, digits: str) -> Any:
    """Add a version as somebody; return its row, or the answer where it is refused."""

    def make(who: Any = None, *, refused: bool = False, **said: Any) -> Any:
        answer = api(who or alice, "POST", VERSIONS, said)
        if refused:
            assert answer.status_code >= 400, answer.content
            return answer
        assert answer.status_code == 202, answer.content
        return ModelVersion.objects.get(model__name=digits, name=answer.json()["name"])

    return make


def write(folder: Path, *paths: str, size: int = 10) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"x" * size)


def told(api: Any, who: Any, name: str = "v1") -> Any:
    return api(who, "GET", f"{VERSIONS}/{name}").json()


def test_a_folder_of_a_volume_becomes_a_version_with_its_framework(
    add, look, data, api, vera, tmp_path
) -> None:
    write(tmp_path / "data", "digits/model.joblib", "digits/notes/readme.md")
    add(origin="volume:data/digits", metrics={"accuracy": 0.97})
    assert told(api, vera)["files"] == "coming"
    look()
    found = told(api, vera)
    assert (found["files"], found["framework"], found["size_bytes"]) == ("there", "sklearn", 20)
    assert (found["volume"], found["folder"], found["stage"]) == ("data", "digits", "candidate")
    assert (found["metrics"], found["created_by"]) == ({"accuracy": 0.97}, "alice")
    listed = api(vera, "GET", MODELS).json()["results"]
    assert [(m["name"], m["versions"], m["newest"]) for m in listed] == [("digits", 1, "v1")]


def test_names_count_up_where_none_is_said(add, data) -> None:
    add(origin="volume:data/a", name="v7")
    assert add(origin="volume:data/a").name == "v8"
    answer = add(origin="volume:data/a", name="v7", refused=True)
    assert (answer.status_code, list(answer.json()["fields"])) == (409, ["name"])


def test_files_that_are_none_of_the_framework_are_refused_with_what_would_do(
    add, look, data, api, alice, tmp_path
) -> None:
    write(tmp_path / "data", "boost/model.ubj", "empty/x/readme", "odd/weights.h5")
    add(origin="volume:data/boost", framework="sklearn")
    add(origin="volume:data/nowhere")
    add(origin="volume:data/odd", framework="onnx")
    look()
    rows = [told(api, alice, name) for name in ("v1", "v2", "v3")]
    assert {row["files"] for row in rows} == {"failed"}
    assert "What would do: XGBoost." in rows[0]["message"]
    assert rows[1]["message"] == "There are no files in this folder."
    assert "model.onnx" in rows[2]["message"]
    assert "weights.h5" in rows[2]["message"]
    write(tmp_path / "data", "odd/model.onnx")
    assert api(alice, "POST", f"{VERSIONS}/v3/check", {}).status_code == 202
    look()
    assert told(api, alice, "v3")["files"] == "there"


def test_a11_links_that_lead_out_of_the_folder_are_no_files_of_it(
    add, look, data, api, alice, tmp_path
) -> None:
    write(tmp_path / "secret", "model.joblib", size=1000)
    (tmp_path / "data" / "m").mkdir(parents=True)
    (tmp_path / "data" / "m" / "model.joblib").symlink_to(tmp_path / "secret" / "model.joblib")
    (tmp_path / "data" / "all").symlink_to(tmp_path / "secret")
    add(origin="volume:data/m", framework="sklearn")
    add(origin="volume:data/all", framework="sklearn")
    look()
    assert {told(api, alice, name)["files"] for name in ("v1", "v2")} == {"failed"}


def test_a_model_of_20_gib_is_registered_by_its_name_and_size_alone(
    add, look, data, api, alice, tmp_path
) -> None:
    """The file is sparse and the test's memory is not: nothing reads it."""
    folder = tmp_path / "data" / "large"
    folder.mkdir(parents=True)
    with (folder / "model.onnx").open("wb") as file:
        file.truncate(20 * 2**30)
    add(origin="volume:data/large")
    began = monotonic()
    look()
    found = told(api, alice)
    assert (found["files"], found["size_bytes"], found["digest"]) == ("there", 20 * 2**30, "")
    assert monotonic() - began < 30, "it was read"


def test_names_in_shift_jis_do_no_harm(add, look, data, api, alice, tmp_path) -> None:
    folder = tmp_path / "data" / "m"
    folder.mkdir(parents=True)
    write(folder, "model.onnx")
    (folder / b"\x83\x82\x83f\x83\x8b.txt".decode(errors="surrogateescape")).write_bytes(b"x")
    add(origin="volume:data/m")
    look()
    found = told(api, alice)
    assert (found["files"], found["framework"], found["size_bytes"]) == ("there", "onnx", 11)


@pytest.mark.parametrize(
    ("origin", "status", "field"),
    [
        ("volume:nowhere/x", 400, "origin"),
        ("volume:data/../x", 400, "origin"),
        ("volume:data//etc", 400, "origin"),
        ("volume:home/x", 400, "origin"),
        ("/etc/passwd", 400, "origin"),
        ("file:///etc", 400, "origin"),
        ("", 400, "origin"),
        ("gs://", 400, "origin"),
        ("gs://bucket", 400, "origin"),
        ("run:nojob/1", 404, ""),
        ("http://169.254.169.254/model.joblib", 400, "origin"),
    ],
)
def test_an_origin_that_is_none_is_refused_by_its_field(
    add, data, origin: str, status: int, field: str
) -> None:
    answer = add(origin=origin, refused=True)
    assert answer.status_code == status, answer.content
    assert list(answer.json().get("fields", {})) == ([field] if field else [])
    assert not ModelVersion.objects.exists()


def test_a1_the_volume_run_and_credential_of_another_project_are_none(
    add, data, credential, make_user, alice, project
) -> None:
    from projects.models import Project
    from volumes.models import Volume

    other = Project.objects.create(slug="speech", name="Speech", phase="running")
    Volume.objects.create(project=other, name="theirs", kind="data", cluster_key="local")
    stolen = credential("theirs", project=other)
    assert add(origin="volume:theirs/m", refused=True).status_code == 400
    for name in ("theirs", str(stolen.uid)):
        answer = add(origin="s3://lake/m", credential=name, refused=True)
        assert answer.status_code in {400, 404}, answer.content
    assert not ModelVersion.objects.exists()


def test_a_bucket_is_copied_by_a_load_into_the_volume_of_models(
    add, look, api, alice, credential, settle, fake, tmp_path
) -> None:
    from loaders.models import Load
    from volumes.models import Volume

    credential("lake")
    row = add(origin="s3://lake/exports/digits", credential="lake", framework="tensorflow")
    load = Load.objects.get()
    assert (load.made_for, load.url, load.volume.name) == (
        row.uid,
        "s3://lake/exports/digits",
        "models",
    )
    assert Volume.objects.get(name="models").kind == "data"
    assert api(alice, "GET", "/api/v1/projects/vision/loads").json()["results"] == []
    settle(load)
    fails(load, fake, settle)
    found = told(api, alice)
    assert (found["files"], "refuses" in found["message"]) == ("failed", True)
    assert api(alice, "POST", f"{VERSIONS}/v1/check", {}).json()["files"] == "coming"
    load = Load.objects.latest("pk")
    assert Load.objects.count() == 2
    settle(load)
    # the last word of what was named is kept by a load
    write(tmp_path / "models", f"{load.folder}/digits/3/saved_model.pb")
    ends(load, fake, settle)
    look()
    found = told(api, alice)
    assert (found["files"], found["framework"]) == ("there", "tensorflow"), found
    assert found["folder"] == f"{load.folder}/digits"


def test_the_load_of_a_version_stays_when_what_jobs_left_is_tidied(
    add, credential, settle, fake, api, alice
) -> None:
    """It belongs to a version, not to a job that is gone."""
    from jobs.output_copies import outputs_tidy
    from loaders.models import Load

    credential("lake")
    row = add(origin="s3://lake/exports/digits", credential="lake", framework="tensorflow")
    load = settle(Load.objects.get())
    fails(load, fake, settle)
    outputs_tidy()
    load.refresh_from_db()
    row.refresh_from_db()
    assert (load.desired, load.deleted_at, row.load) == ("running", None, load)
    assert api(alice, "POST", f"{VERSIONS}/v1/check", {}).json()["files"] == "coming"
    assert Load.objects.filter(deleted_at=None).count() == 2
    api(alice, "DELETE", f"{VERSIONS}/v1")
    assert not Load.objects.exclude(desired="absent").exists()  # the version lets both go


def test_an_upload_is_looked_at_when_it_is_complete(add, look, api, bob, fake, tmp_path) -> None:
    row = add(bob, origin="upload:out")
    look()
    found = told(api, bob)
    assert (found["files"], found["volume"], found["source"]) == ("coming", "models", "upload")
    write(tmp_path / "models", f"{row.folder}/model.txt")
    assert api(bob, "POST", f"{VERSIONS}/v1/check", {}).status_code == 202
    look()
    assert told(api, bob)["framework"] == "lightgbm"


def test_what_a_run_left_in_a_volume_is_served_in_place(
    add, look, data, api, alice, settle, fake, tmp_path
) -> None:
    from jobs.models import Job

    said = {"name": "train", "command": ["python", "t.py"], "output": "volume:data/out"}
    said |= {"volumes": ["data"]}
    answer = api(alice, "POST", "/api/v1/projects/vision/jobs", said)
    assert answer.status_code == 202, answer.content
    job = settle(Job.objects.get())
    answer = add(origin="run:train/1", refused=True)
    assert (answer.status_code, answer.json()["code"]) == (409, "not-over")
    ends(job, fake, settle)
    write(tmp_path / "data", f"out/train-{job.short_id}/1/best/model.pkl")
    row = add(origin="run:train/latest/best")
    look()
    found = told(api, alice)
    assert (found["files"], found["source"], found["volume"]) == ("there", "run", "data"), found
    assert row.run_uid == job.uid
    assert add(origin="run:train/9", refused=True).status_code == 404


def test_what_serves_is_deleted_neither_as_a_version_nor_with_its_volume(
    add, look, data, api, alice, serve, tmp_path
) -> None:
    write(tmp_path / "data", "m/model.joblib")
    add(origin="volume:data/m")
    look()
    serve(model="digits/v1", command=["python3", "serve.py"])
    for path in (f"{VERSIONS}/v1", f"{MODELS}/digits"):
        answer = api(alice, "DELETE", path)
        assert (answer.status_code, answer.json()["code"]) == (409, "model-serves")
        assert "digits" in answer.json()["detail"]
    assert told(api, alice)["endpoints"] == ["digits"]
    answer = api(alice, "DELETE", f"/api/v1/projects/vision/volumes/{data.uid}")
    assert (answer.status_code, answer.json()["code"]) == (409, "volume-in-use")
    assert "digits/v1" in answer.json()["detail"]


def test_a_model_goes_with_its_versions_and_leaves_the_volume(add, data, api, alice) -> None:
    add(origin="volume:data/m")
    assert api(alice, "DELETE", f"{MODELS}/digits").status_code == 204
    assert not Model.objects.exists()
    answer = api(alice, "DELETE", f"/api/v1/projects/vision/volumes/{data.uid}?confirm=data")
    assert answer.status_code != 409, answer.content


def test_the_default_is_the_one_that_serves_else_the_newest(
    add, look, data, api, alice, serve, tmp_path
) -> None:
    write(tmp_path / "data", "m/model.joblib")
    for _n in range(3):
        add(origin="volume:data/m")
    look()
    assert serve(model="digits").model == "digits/v3"
    assert api(alice, "POST", f"{VERSIONS}/v1/default").json()["stage"] == "serving"
    assert serve(model="digits", name="second").model == "digits/v1"
    api(alice, "POST", f"{VERSIONS}/v2/default")
    assert told(api, alice, "v1")["stage"] == "candidate"
    assert api(alice, "PATCH", f"{VERSIONS}/v3", {"stage": "retired"}).json()["stage"] == "retired"
    assert api(alice, "PATCH", f"{VERSIONS}/v3", {"stage": "gone"}).status_code == 400


def test_one_whose_files_have_not_come_is_never_the_default_beside_one_that_is_there(
    add, look, data, api, alice, serve, tmp_path
) -> None:
    write(tmp_path / "data", "m/model.joblib")
    add(origin="volume:data/m")
    look()
    add(origin="volume:data/later")
    assert serve(model="digits").model == "digits/v1"
    refused = api(alice, "POST", f"{VERSIONS}/v2/default")
    assert (refused.status_code, refused.json()["code"]) == (409, "files-not-there")
    assert "digits/v2 are not there: make it the default when they are" in refused.json()["detail"]
    assert api(alice, "PATCH", f"{VERSIONS}/v2", {"stage": "serving"}).status_code == 409
    assert told(api, alice, "v2")["stage"] == "candidate"


def test_what_is_not_there_is_not_served(add, look, data, api, alice, tmp_path) -> None:
    from tests.serving.conftest import ENDPOINTS, LEAST

    add(origin="volume:data/m")
    answer = api(alice, "POST", ENDPOINTS, {**LEAST, "model": "digits/v1"})
    assert "still looked at" in answer.json()["fields"]["model"][0]
    look()
    answer = api(alice, "POST", ENDPOINTS, {**LEAST, "model": "digits/v1"})
    assert "There are no files" in answer.json()["fields"]["model"][0]


def test_an_endpoint_waits_for_the_files_of_its_version(
    add, look, data, serve, settle, tmp_path
) -> None:
    add(origin="volume:data/m", framework="sklearn")
    row = serve(model="digits/v1", command=["python3", "serve.py"])
    assert (row.phase, row.reason) == ("pending", "data")
    write(tmp_path / "data", "m/model.joblib")
    look()
    assert settle(row).phase == "running"


@pytest.mark.parametrize(
    "metrics", [{"a": "1"}, {"a": True}, {"": 1}, {"a\n": 1}, {str(n): n for n in range(51)}]
)
def test_a_metric_is_a_finite_number_with_a_name(add, data, metrics: Any) -> None:
    answer = add(origin="volume:data/m", metrics=metrics, refused=True)
    assert list(answer.json()["fields"]) == ["metrics"]


def test_who_may_only_read_registers_and_deletes_nothing(add, data, api, vera, charlie) -> None:
    add(origin="volume:data/m")
    assert add(vera, origin="volume:data/m", refused=True).status_code == 403
    assert add(charlie, origin="volume:data/m", refused=True).status_code == 404
    assert api(vera, "DELETE", f"{VERSIONS}/v1").status_code == 403
    assert api(vera, "POST", f"{VERSIONS}/v1/check", {}).status_code == 403
    assert api(charlie, "GET", VERSIONS).status_code == 404


def test_deleting_what_another_registered_needs_a_reason(add, data, api, bob) -> None:
    add(origin="volume:data/m")
    answer = api(bob, "DELETE", f"{VERSIONS}/v1")
    assert list(answer.json()["fields"]) == ["reason"]
    assert api(bob, "DELETE", f"{VERSIONS}/v1?reason=wrong+labels").status_code == 204


def ends(row: Any, fake: Any, settle: Any, code: int = 0) -> None:
    from runtime.hints import hint

    fake.exit(str(row.uid), code=code)
    hint(row)
    settle(row)


def fails(load: Any, fake: Any, settle: Any) -> None:
    from loaders.reports import parse, report_store

    counts = {"found": 1, "done": 0, "unchanged": 0, "skipped": 0, "failed": 1, "deleted": 0}
    body = {
        "launch": load.launch,
        "seq": load.seq + 1,
        "phase": "ended",
        "files": counts,
        "bytes": {"found": 12, "done": 0, "read": 0},
        "rate_bytes_s": 0,
        "concurrency": 1,
        "listed": True,
        "final": {"exit": 4, "code": "denied", "message": "The store refuses this credential."},
    }
    report_store(load.uid, parse(json.loads(json.dumps(body))))
    ends(load, fake, settle, 4)


def test_the_metric_of_a_trial_becomes_that_of_its_version(add, data, alice, project) -> None:
    from common.clock import now as at
    from experiments.models import Experiment, Trial
    from jobs.models import Job, Run

    search = Experiment.objects.create(
        project=project,
        owner=alice,
        name="s",
        parameters=[],
        metric="accuracy",
        objective="maximize",
        algorithm="tpe",
        seed=1,
        trials_max=1,
        parallel=1,
        failed_max=1,
    )
    job = Job.objects.create(project=project, owner=alice, name="s-1", launch=1, phase="stopped")
    Trial.objects.create(experiment=search, number=1, parameters={}, job=job, value=0.91)
    Run.objects.create(
        job=job,
        launch=1,
        asked_at=at(),
        ended_at=at(),
        output_volume=data,
        output_folder="out/1",
    )
    row = add(origin="run:s-1/1", metrics={"loss": 0.2})
    assert row.metrics == {"accuracy": 0.91, "loss": 0.2}


def test_only_the_job_that_reads_a_version_says_what_is_in_it(
    add, look, data, api, alice, vera, tmp_path, settle, client, settings
) -> None:
    """With the token of its launch; what it says is bounded, and another digest is a warning."""
    from hubapi.services import derive
    from jobs.models import Job
    from jobs.runtime_spec import PURPOSE

    write(tmp_path / "data", "m/model.onnx")
    add(origin="volume:data/m")
    assert api(alice, "POST", f"{VERSIONS}/v1/read").status_code == 409, "nobody looked yet"
    look()
    assert api(vera, "POST", f"{VERSIONS}/v1/read").status_code == 403
    begun = api(alice, "POST", f"{VERSIONS}/v1/read")
    assert (begun.status_code, begun.json()["read"]) == (202, "running"), begun.content
    job = settle(Job.objects.get(name__startswith="read-digits-v1"))
    (mount,) = job.mounts.all()
    assert (mount.read_only, job.environment) == (True, "serving")

    def tell(token: str, **told: Any) -> int:
        answer = client.post(
            f"/hub/api/berth/jobs/{job.uid}/report",
            json.dumps({"told": told}),
            content_type="application/json",
            headers={"Authorization": f"Bearer {token}"},
            SERVER_PORT=str(settings.BERTH_INTERNAL_PORT),
        )
        return int(answer.status_code)

    token, digest = derive(PURPOSE, job.uid, job.launch), "sha256:" + "a" * 64
    assert tell("x" * 43, digest=digest) == 403
    assert tell(token, digest="<script>", described={"inputs": [["x"]]}) == 200
    assert (told(api, alice)["digest"], told(api, alice)["signature"]) == ("", {})
    tensors = [{"name": "input", "datatype": "FP32", "shape": [-1, 4]}]
    said = {"inputs": tensors, "outputs": [], "made_with": "1.9\n" + "x" * 500}
    assert tell(token, digest=digest, described=said) == 200
    found = told(api, alice)
    assert (found["digest"], found["signature"]["inputs"]) == (digest, tensors)
    assert (len(found["made_with"]), "\n" in found["made_with"]) == (80, False)
    assert tell(token, digest="sha256:" + "b" * 64, done=True) == 200
    found = told(api, alice)
    assert (found["digest"], found["read"]) == (digest, "done")
    assert "not what was registered" in found["message"]
    assert tell(token, digest=digest) == 409, "its job is on its way out"
