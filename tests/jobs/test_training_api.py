"""Training jobs by the API, in the shapes of AI Platform Training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]
TRAININGS = "/api/v1/projects/vision/ai-platform/jobs"
CONFIG = (Path(__file__).parent / "training_input" / "config.yaml").read_text()
SMALL = """
trainingInput:
  scaleTier: CUSTOM
  masterType: n1-standard-1
  pythonModule: trainer.task
  args: [--password, sesame-opens]
labels: {team: vision}
"""


@pytest.fixture
def submit(api: Any, alice: Any) -> Callable[..., Any]:
    def post(config: str = SMALL, *, plan: bool = False, who: Any = None, **more: Any) -> Any:
        body = {"jobId": "mnist_1", "config": config, **more}
        return api(who or alice, "POST", f"{TRAININGS}?plan=1" if plan else TRAININGS, body)

    return post


def test_a_job_is_submitted_and_told_in_its_own_words(
    api, submit, settle, end, fake, alice, bob, vera
) -> None:
    from jobs.models import Job

    answer = submit()
    assert answer.status_code == 202, answer.content
    told = answer.json()
    assert (told["jobId"], told["state"], told["labels"]) == (
        "mnist_1",
        "QUEUED",
        {"team": "vision"},
    )
    assert "startTime" not in told
    row = Job.objects.get()
    assert (row.command, row.args) == (
        ["python3", "-m", "trainer.task"],
        ["--password", "sesame-opens"],
    )
    assert (row.cpu_milli, row.memory_mib) == (1000, 3840)
    assert api(alice, "GET", f"{TRAININGS}/mnist_1").json()["state"] == "QUEUED"
    settle(row)
    running = api(alice, "GET", f"{TRAININGS}/mnist_1").json()
    assert running["state"] == "RUNNING"
    assert running["trainingInput"]["args"] == ["--password", "sesame-opens"]
    for other in (bob, vera):
        answer = api(other, "GET", f"{TRAININGS}/mnist_1")
        assert answer.status_code == 200
        assert "sesame" not in answer.content.decode()
        assert answer.json()["trainingInput"]["pythonModule"] == "trainer.task"
    end(row, 3)
    ended = api(alice, "GET", TRAININGS).json()["results"][0]
    assert (ended["state"], bool(ended["endTime"])) == ("FAILED", True)
    assert "exit code 3" in ended["errorMessage"]
    assert api(vera, "GET", f"{TRAININGS}/other").status_code == 404


def test_what_is_said_beside_the_file_comes_first(submit) -> None:
    from jobs.models import Job

    above = {"masterType": "n1-highmem-2", "scheduling": {"maxRunningTime": "60s"}}
    answer = submit(trainingInput=above, labels={"team": "other"}, job={"retries": 1})
    assert "job.retries" in answer.json()["fields"]
    answer = submit(trainingInput=above, labels={"team": "other"}, job={"env": {"A": "b"}})
    assert answer.status_code == 202, answer.content
    assert answer.json()["labels"] == {"team": "other"}
    row = Job.objects.get()
    assert (row.cpu_milli, row.memory_mib, row.time_limit_minutes) == (2000, 13 * 1024, 1)
    assert dict(row.env) == {"A": "b"}
    assert submit().json()["code"] == "name-taken"


def test_a_refusal_names_every_field_and_makes_nothing(submit) -> None:
    from jobs.models import Job, TrainingInput

    answer = submit(trainingInput={"serviceAccount": "a@b", "scheduling": {"maxWaitTime": "5s"}})
    assert answer.status_code == 400
    assert set(answer.json()["fields"]) == {"serviceAccount", "scheduling.maxWaitTime"}
    assert submit("trainingInput: {scaleTeir: BASIC}").json()["fields"] == {
        "trainingInput.scaleTeir": ["There is no such field. Did you mean “scaleTier”?"]
    }
    for name in ("a/b", "1a", "名前", "a" * 64):
        assert submit(jobId=name).status_code == 400
    assert submit(job={"environment": "nowhere"}).status_code == 400
    assert not Job.objects.exists()
    assert not TrainingInput.objects.exists()


def test_a_plan_says_what_each_field_becomes_and_makes_nothing(submit, vera, charlie) -> None:
    from jobs.models import Job

    told = submit(plan=True).json()
    assert (told["allowed"], told["plan"]["action"]) == (True, "create")
    becomes = {line["field"]: line["becomes"] for line in told["fields"]}
    assert becomes["trainingInput.masterType".partition(".")[2]] == "1 CPU, 3.8 GiB"
    refused = submit(CONFIG, plan=True, trainingInput={"serviceAccount": "a@b"}).json()
    assert (refused["allowed"], refused["plan"]) == (False, None)
    assert "serviceAccount" in refused["refusal"]
    assert not Job.objects.exists()
    assert submit(plan=True, who=vera).status_code == 403
    assert submit(who=charlie).status_code == 404


def test_its_job_dir_is_its_output_where_a_credential_opens_it(submit, credential) -> None:
    from jobs.models import Job

    said = {"trainingInput": {"jobDir": "gs://team-bucket/jobs/mnist"}}
    assert submit(**said).status_code == 202
    assert Job.objects.get().output == ""
    credential(kind="gcs", name="google")
    assert submit(jobId="mnist_2", **said).status_code == 202
    assert Job.objects.get(name="mnist_2").output == "gs://team-bucket/jobs/mnist"
