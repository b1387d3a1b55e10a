"""Batch predictions as people begin them: the job that is made, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.clock import now
from jobs.models import Job, Told
from loaders.models import Load
from serving.models import BatchPrediction, ModelVersion

pytestmark = pytest.mark.django_db

HERE = "/api/v1/projects/vision/batch-predictions"
SAID = {"model": "digits", "input": "volume:data/in", "output": "volume:data/out"}


@pytest.fixture
def digits(version: Any, data: Any) -> Any:
    """A version in the volume ``data``, in which the others lie, too."""
    return version("v1", volume=data, folder="models/digits")


@pytest.fixture
def begin(api: Any, alice: Any, digits: Any) -> Any:
    del digits

    def make(who: Any = None, *, refused: bool = False, **said: Any) -> Any:
        body = {name: value for name, value in {**SAID, **said}.items() if value is not None}
        answer = api(who or alice, "POST", HERE, body)
        assert (answer.status_code >= 400) == refused, answer.content
        return answer.json()

    return make


def test_it_is_a_job_that_has_model_input_and_output(begin, data, api, alice, vera) -> None:
    made = begin(batch=8, memory_mib=512)
    assert (made["model"], made["progress"], made["done"]) == ("digits/v1", 0, 0)
    job = Job.objects.get(short_id=made["job"])
    assert job.command == ["python3", "-m", "serving.programs.batch_predict"]
    words = " ".join(job.args)
    assert "--framework sklearn --model-dir data/models/digits --name digits" in words
    assert "--input data/in" in words
    assert "--batch 8 --at-once 4" in words
    assert (job.environment, job.output, job.memory_mib) == ("serving", "volume:data/out", 512)
    assert job.checkpoints == "data/batch-progress"
    assert [(m.volume, m.read_only) for m in job.mounts.all()] == [(data, False)]
    assert job.code.startswith("package:")
    assert [one["id"] for one in api(vera, "GET", HERE).json()["results"]] == [made["id"]]
    Told.objects.create(job=job, launch=1, state={"progress": [0.5, 120, 2]})
    found = api(alice, "GET", f"{HERE}/{made['id']}").json()
    assert (found["progress"], found["done"], found["failed"]) == (0.5, 120, 2)
    assert api(alice, "GET", f"{HERE}?model=digits").json()["results"] == [found]


def test_two_of_them_have_the_same_program_once(begin, project) -> None:
    begin()
    begin(output="volume:data/other")
    assert project.packages.count() == 1


def test_what_is_only_read_is_mounted_so(begin, digits, version, project, alice, settle) -> None:
    from volumes.models import Volume

    made = Volume.objects.create(
        project=project, name="results", kind="data", created_by=alice, cluster_key="local"
    )
    settle(made)
    job = Job.objects.get(short_id=begin(output="volume:results/out")["job"])
    assert {(m.volume.name, m.read_only) for m in job.mounts.all()} == {
        ("data", True),
        ("results", False),
    }


@pytest.mark.parametrize(
    ("said", "field", "sentence"),
    [
        ({"model": "nothing"}, "model", "no such model"),
        ({"model": ""}, "model", ""),
        ({"input": "/etc"}, "input", "Write it like volume:NAME/FOLDER"),
        ({"input": "volume:data/../x"}, "input", ""),
        ({"input": "volume:secret/in"}, "input", "no volume “secret”"),
        ({"output": "volume:data/in/out"}, "output", "write the predictions to another one"),
        ({"input": "volume:data", "output": "volume:data/out"}, "output", "another one"),
        ({"input": "s3://No_Such Bucket/x"}, "input", ""),
        ({"replicas": 0}, "replicas", ""),
    ],
)
def test_what_can_t_be_is_refused_with_its_field(begin, said, field, sentence) -> None:
    answer = begin(refused=True, **said)
    assert list(answer["fields"]) == [field], answer
    assert sentence in json.dumps(answer, ensure_ascii=False)
    assert not Job.objects.exists()


def test_a_version_that_no_own_server_loads_is_refused_with_what_would_do(
    begin, version, data
) -> None:
    version("v2", framework="huggingface", volume=data)
    answer = begin(refused=True, model="digits/v2")
    assert "scikit-learn" in answer["detail"]
    assert "Hugging Face" in answer["detail"]
    version("v3", files="coming", volume=data)
    assert begin(refused=True, model="digits/v3")["code"] == "files-coming"


def test_another_project_s_volume_and_who_may_not_start_jobs(begin, api, vera, charlie) -> None:
    assert api(vera, "POST", HERE, SAID).status_code == 403
    assert api(charlie, "POST", HERE, SAID).status_code == 404
    assert api(charlie, "GET", HERE).status_code == 404
    made = begin()
    assert api(charlie, "GET", f"{HERE}/{made['id']}").status_code == 404


def test_instances_of_a_bucket_are_brought_first_and_no_load_stays_of_what_is_refused(
    begin, credential
) -> None:
    credential("lake")
    bucket = {"input": "s3://bucket/in/", "credential": "lake"}
    job = Job.objects.get(short_id=begin(**bucket)["job"])
    load = Load.objects.get()
    assert [need.needed_id for need in job.needs.all()] == [load.pk]
    assert f"--input data/{load.folder}" in " ".join(job.args)
    begin(refused=True, **bucket, gpu_flavor="no such kind", gpus=1)
    assert [one.desired for one in Load.objects.order_by("pk")][1:] == ["absent"]
    assert BatchPrediction.objects.count() == 1


def test_a_name_that_is_used_again_reads_nothing_that_was_brought_before(begin, credential) -> None:
    credential("lake")
    bucket = {"input": "s3://bucket/in/", "credential": "lake", "name": "nightly"}
    first = Job.objects.get(short_id=begin(**bucket)["job"])
    Job.objects.filter(pk=first.pk).update(deleted_at=now())
    second = Job.objects.get(short_id=begin(**bucket)["job"])
    one, other = Load.objects.order_by("pk")
    assert one.folder != other.folder
    assert one.folder in " ".join(first.args)
    assert other.folder in " ".join(second.args)
    told = begin(refused=True, **{**bucket, "name": "two\nlines"})
    assert "name" in told["fields"]
    assert "input" not in told["fields"]


@pytest.fixture
def endpoint(serve, digits) -> Any:
    """An endpoint of Alice's that serves the version."""
    del digits
    return serve(name="live", model="digits/v1", command=None)


def test_a_live_endpoint_is_asked_with_a_secret_of_the_launch_that_ends_with_it(
    begin, endpoint, project, alice, fake, settle
) -> None:
    from accounts.services.tokens import digest_of
    from jobs.runtime_spec import workload_spec
    from projects.models import Membership
    from serving.gateway.rows import fingerprint, read_table

    def who() -> dict[str, Any]:
        return {d: one for d, one in read_table().principals.items() if one.word[0] == "b"}

    before = fingerprint()
    made = begin(model=None, endpoint="live")
    assert (made["model"], made["endpoint"]) == (None, "live")
    job = settle(Job.objects.get(short_id=made["job"]))
    words = " ".join(job.args)
    assert "--endpoint http" in words
    assert "/e/vision/live --name digits --what endpoint live" in words
    assert "--framework" not in words
    assert [m.volume.name for m in job.mounts.all()] == ["data"]
    secret = workload_spec(job).secret_env()["BERTH_ENDPOINT_KEY"]
    assert secret not in repr(workload_spec(job))
    ((digest, principal),) = who().items()
    assert digest == digest_of(secret)
    assert principal.endpoints == {str(endpoint.pk)}
    assert not principal.projects
    assert fingerprint() != before
    running = fingerprint()
    Membership.objects.filter(user=alice).update(role="viewer")
    assert not who()  # what its owner may no longer do
    Membership.objects.filter(user=alice).update(role="owner")
    Job.objects.filter(pk=job.pk).update(launch=job.launch + 1)
    assert set(who()) != {digest}  # another launch has another
    Job.objects.filter(pk=job.pk).update(finished_at="2026-01-01T00:00Z")
    assert not who()
    assert fingerprint() != running


@pytest.mark.parametrize(
    ("said", "field", "sentence"),
    [
        ({"endpoint": "live"}, "endpoint", "not both"),
        ({"model": None, "endpoint": "nothing"}, "endpoint", "no such endpoint"),
    ],
)
def test_a_model_or_an_endpoint_and_one_that_is_there(
    begin, endpoint, said, field, sentence
) -> None:
    del endpoint
    answer = begin(refused=True, **said)
    assert list(answer["fields"]) == [field]
    assert sentence in answer["detail"]


def test_one_that_sleeps_is_asked_and_one_that_somebody_stopped_is_refused(begin, endpoint) -> None:
    type(endpoint).objects.filter(pk=endpoint.pk).update(
        desired="stopped", phase="stopped", stop_reason="asleep"
    )
    begin(model=None, endpoint="live")
    type(endpoint).objects.filter(pk=endpoint.pk).update(stop_reason="user")
    answer = begin(refused=True, model=None, endpoint="live", output="volume:data/2")
    assert "Start it first" in answer["detail"]


def test_its_calls_are_told_as_those_of_the_batch_prediction(begin, endpoint) -> None:
    from common.clock import now
    from serving.models import Calls
    from serving.traffic import by_caller

    made = begin(model=None, endpoint="live")
    row = BatchPrediction.objects.get(uid=made["id"])
    Calls.objects.create(
        endpoint=endpoint, minute=now(), gateway="g", caller=f"b{row.pk}", requests=3
    )
    ((caller, sums),) = by_caller(endpoint, "hour")
    assert (caller.name, caller.is_key, sums.requests) == (made["name"], False, 3)


def over(job: Job, *, failed: int, phase: str = "stopped") -> None:
    """Have it ended, with so many errors in what it left."""
    state = {"progress": [1.0, 120, failed]}
    Told.objects.update_or_create(job=job, launch=1, defaults={"state": state})
    Job.objects.filter(pk=job.pk).update(phase=phase, observed_generation=job.generation)


def test_only_what_failed_is_tried_again_or_all_of_it_is(begin, api, alice, data) -> None:
    made = begin(batch=8, memory_mib=512)
    job = Job.objects.get(short_id=made["job"])
    again = f"{HERE}/{made['id']}/again"
    early = api(alice, "POST", again, {"errors_only": True})
    assert (early.status_code, early.json()["code"]) == (409, "not-over")
    over(job, failed=2)
    tried = api(alice, "POST", again, {"errors_only": True})
    assert tried.status_code == 202, tried.content
    assert tried.json()["errors_of"] == made["id"]
    second = Job.objects.get(short_id=tried.json()["job"])
    words = " ".join(second.args)
    assert f"--only data/out/{job.name}-{job.short_id}/1" in words
    assert f"--only-state data/batch-progress/{job.short_id}" in words
    assert "--input data/in" in words
    assert "--batch 8" in words
    assert second.memory_mib == 512
    whole = api(alice, "POST", again, {}).json()
    assert whole["errors_of"] is None
    assert "--only" not in " ".join(Job.objects.get(short_id=whole["job"]).args)
    over(job, failed=0)
    nothing = api(alice, "POST", again, {"errors_only": True})
    assert (nothing.status_code, nothing.json()["code"]) == (409, "no-errors")


@pytest.mark.parametrize("what", ["failed", "not-told", "of-several"])
def test_that_all_was_predicted_say_the_end_of_the_job_and_the_last_word_of_it(
    begin, api, alice, what
) -> None:
    """One that failed may have told all; of one that ended its last word may not have been read.

    Several replicas told only of the first one once.
    """
    made = begin(replicas=2 if what == "of-several" else 1)
    job = Job.objects.get(short_id=made["job"])
    over(job, failed=0, phase="failed" if what == "failed" else "stopped")
    if what == "not-told":
        Told.objects.filter(job=job).update(state={"progress": [0.9, 100, 0]})
    tried = api(alice, "POST", f"{HERE}/{made['id']}/again", {"errors_only": True})
    assert tried.status_code == 202, tried.content


def test_errors_of_a_bucket_are_of_what_was_brought_then(begin, api, alice, credential) -> None:
    credential("lake")
    made = begin(input="s3://bucket/in/", credential="lake")
    job = Job.objects.get(short_id=made["job"])
    over(job, failed=1)
    tried = api(alice, "POST", f"{HERE}/{made['id']}/again", {"errors_only": True}).json()
    second = Job.objects.get(short_id=tried["job"])
    assert f"--input data/batch-inputs/{job.name}" in " ".join(second.args)
    assert not second.needs.exists()
    assert Load.objects.count() == 1


def test_how_fast_it_is_and_how_long_it_takes_from_here(begin, api, alice) -> None:
    made = begin()
    job = Job.objects.get(short_id=made["job"])
    marks = [[0, 1, [[100, 1_000], [200, 2_000]], [500, 4_000, 0]]]
    state = {"progress": [0.25, 500, 0], "starts": marks}
    Told.objects.create(job=job, launch=1, state=state)
    found = api(alice, "GET", f"{HERE}/{made['id']}").json()
    assert (round(found["per_second"], 1), found["seconds_left"]) == (133.3, 11)
    Job.objects.filter(pk=job.pk).update(phase="stopped", observed_generation=job.generation)
    found = api(alice, "GET", f"{HERE}/{made['id']}").json()
    assert (found["per_second"], found["seconds_left"]) == (None, None)


def test_a_document_begins_it_once_and_a_plan_begins_nothing(begin, api, alice) -> None:
    spec = {**SAID, "batch": 8}
    meta = {"name": "nightly", "project": "vision"}
    document = {
        "apiVersion": "berth.dev/v1",
        "kind": "BatchPrediction",
        "metadata": meta,
        "spec": spec,
    }
    planned = api(alice, "POST", f"{HERE}/apply?plan=1", document)
    assert (planned.status_code, planned.json()["action"]) == (200, "create"), planned.content
    assert planned.json()["allowed"]
    assert not Job.objects.exists()
    first = api(alice, "POST", f"{HERE}/apply", document)
    assert (first.status_code, first.json()["name"]) == (202, "nightly"), first.content
    assert api(alice, "POST", f"{HERE}/apply", document).json()["id"] == first.json()["id"]
    assert api(alice, "POST", f"{HERE}/apply?plan=1", document).json()["action"] == "none"
    other = api(alice, "POST", f"{HERE}/apply", {**document, "spec": {**spec, "batch": 9}})
    assert other.status_code == 409
    strange = api(alice, "POST", f"{HERE}/apply", {**document, "spec": {**spec, "bacth": 9}})
    assert "bacth" in strange.content.decode()
    assert Job.objects.count() == 1


def test_its_pages_begin_one_show_how_far_it_is_and_refuse_in_the_form(
    begin, as_user, alice, vera
) -> None:
    here = "/projects/vision/batch-predictions/"
    client = as_user(alice)
    assert "Nothing was predicted in a batch yet" in client.get(here).content.decode()
    form = {**SAID, "batch": 32, "at_once": 4, "replicas": 1, "gpus": 0, "instances": "on"}
    wrong = client.post(f"{here}new", {**form, "input": "volume:secret/in"})
    assert (wrong.status_code, "no volume “secret”" in wrong.content.decode()) == (422, True)
    empty = client.post(f"{here}new", {**form, "model": "", "input": ""})
    assert list(empty.context["form"].errors) == ["input", "model"]
    ModelVersion.objects.update(files="coming")  # of no field: it stands on top of the form
    early = client.post(f"{here}new", form)
    assert (early.status_code, "digits/v1 are not all there yet" in early.content.decode()) == (
        409,
        True,
    )
    ModelVersion.objects.update(files="there")
    made = client.post(f"{here}new", form)
    job = Job.objects.get()
    assert (made.status_code, made.url) == (302, job.get_absolute_url())
    assert "It has not told yet how far it is." in client.get(made.url).content.decode()
    told = Told.objects.create(job=job, launch=1, state={"progress": [0.5, 120, 2]})
    page = client.get(made.url).content.decode()
    assert "50 % of the input is read: 120 instances, 2 of them not predicted." in page
    told.state["progress"] += [[["It has <3> columns.", 1], ["", 1]]]
    told.save()
    page = client.get(made.url).content.decode()
    assert "It has &lt;3&gt; columns." in page
    assert "other reasons" in page
    assert "TensorBoard" not in page
    listed = as_user(vera).get(f"{here}?model=digits").content.decode()
    assert job.name in listed
    assert "50 %" in listed
    assert as_user(vera).get(f"{here}new").status_code == 403


def test_one_from_before_its_words_were_kept_is_run_again_with_its_model(begin, api, alice) -> None:
    from serving.models import BatchPrediction

    made = begin()
    BatchPrediction.objects.update(said={})
    over(Job.objects.get(short_id=made["job"]), failed=2)
    for said in ({}, {"errors_only": True}):
        answer = api(alice, "POST", f"{HERE}/{made['id']}/again", said)
        assert answer.status_code == 202, answer.content
        assert answer.json()["model"] == made["model"]


def test_an_operator_s_authority_that_can_t_be_read_is_told_with_a_sentence(
    begin, endpoint, settings, tmp_path
) -> None:
    settings.BERTH_OUTBOUND_CA_FILE = str(tmp_path / "gone.pem")
    answer = begin(refused=True, model=None, endpoint="live")
    assert answer["code"] == "no-authority"
    assert "BERTH_OUTBOUND_CA_FILE can't be read" in answer["detail"]
    begin()  # its own server needs none
