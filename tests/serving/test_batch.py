"""Batch predictions as people begin them: the job that is made, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs.models import Job, Told
from loaders.models import Load
from serving.models import BatchPrediction

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
        answer = api(who or alice, "POST", HERE, {**SAID, **said})
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


def test_its_pages_begin_one_show_how_far_it_is_and_refuse_in_the_form(
    begin, as_user, alice, vera
) -> None:
    here = "/projects/vision/batch-predictions/"
    client = as_user(alice)
    assert "Nothing was predicted in a batch yet" in client.get(here).content.decode()
    form = {**SAID, "batch": 32, "at_once": 4, "replicas": 1, "gpus": 0, "instances": "on"}
    wrong = client.post(f"{here}new", {**form, "input": "volume:secret/in"})
    assert (wrong.status_code, "no volume “secret”" in wrong.content.decode()) == (422, True)
    made = client.post(f"{here}new", form)
    job = Job.objects.get()
    assert (made.status_code, made.url) == (302, job.get_absolute_url())
    assert "It has not told yet how far it is." in client.get(made.url).content.decode()
    Told.objects.create(job=job, launch=1, state={"progress": [0.5, 120, 2]})
    page = client.get(made.url).content.decode()
    assert "50 % of the input is read: 120 instances, 2 of them not predicted." in page
    listed = as_user(vera).get(f"{here}?model=digits").content.decode()
    assert job.name in listed
    assert "50 %" in listed
    assert as_user(vera).get(f"{here}new").status_code == 403
