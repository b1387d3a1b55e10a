"""``hyperparameters`` of a training input: what they become, and how a search is told back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext

from experiments import steering
from experiments.models import Experiment
from jobs.ai_platform.hyperparameters import search_of
from jobs.models import Job
from runtime.hints import hint

HERE = "/api/v1/projects/vision/ai-platform/jobs"
ASKED: dict[str, Any] = {
    "goal": "MINIMIZE",
    "hyperparameterMetricTag": "loss",
    "maxTrials": 4,
    "maxParallelTrials": 2,
    "enableTrialEarlyStopping": "true",
    "params": [
        {
            "parameterName": "learning_rate",
            "type": "DOUBLE",
            "minValue": "0.0001",
            "maxValue": "0.1",
            "scaleType": "UNIT_LOG_SCALE",
        },
        {"parameterName": "layers", "type": "INTEGER", "minValue": "1", "maxValue": "4"},
        {"parameterName": "act", "type": "CATEGORICAL", "categoricalValues": ["relu", "tanh"]},
        {"parameterName": "batch", "type": "DISCRETE", "discreteValues": ["16", "32"]},
    ],
}
WITHOUT: dict[str, Any] = {
    "scaleTier": "CUSTOM",
    "masterType": "n1-standard-1",
    "pythonModule": "trainer.task",
    "args": ["--epochs=2"],
}


@pytest.fixture
def submit(api: Any, alice: Any, project: Any) -> Callable[..., Any]:
    def post(
        *, plan: bool = False, job_id: str = "tune_1", training: Any = None, **said: Any
    ) -> Any:
        training = {**WITHOUT, **(training or {}), "hyperparameters": {**ASKED, **said}}
        config = yaml.safe_dump({"trainingInput": training})
        body = {"jobId": job_id, "config": config}
        return api(alice, "POST", f"{HERE}?plan=1" if plan else HERE, body)

    return post


def test_each_kind_of_parameter_is_kept_with_its_bounds_values_and_scale() -> None:
    found = search_of(
        {**ASKED, "maxTrials": 4, "maxParallelTrials": 2, "enableTrialEarlyStopping": True}
    )
    assert found.refused == {}
    assert found.said == {
        "algorithm": "tpe",
        "objective": "minimize",
        "metric": "loss",
        "trials_max": 4,
        "parallel": 2,
        "failed_max": 3,
        "early_stopping": True,
        "parameters": [
            {"name": "learning_rate", "type": "double", "min": 0.0001, "max": 0.1, "log": True},
            {"name": "layers", "type": "int", "min": 1.0, "max": 4.0},
            {"name": "act", "type": "categorical", "values": ["relu", "tanh"]},
            {"name": "batch", "type": "categorical", "values": ["16", "32"]},
        ],
    }
    assert found.args[0] == "--learning_rate=${trialParameters.learning_rate}"


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"algorithm": "MAGIC"}, "algorithm"),
        ({"goal": "BEST"}, "goal"),
        ({"maxTrials": 501}, "maxTrials"),
        ({"maxParallelTrials": 33}, "maxParallelTrials"),
        ({"resumePreviousJobId": "before"}, "resumePreviousJobId"),
        ({"params": []}, "params"),
        ({"params": [{"type": "DOUBLE"}]}, "params[0].parameterName"),
        ({"params": [{"parameterName": "x", "type": "TEXT"}]}, "params[0].type"),
        ({"params": [{"parameterName": "x", "type": "DISCRETE"}]}, "params[0].discreteValues"),
        (
            {"params": [{"parameterName": "x", "type": "DOUBLE", "minValue": "nan"}]},
            "params[0].minValue",
        ),
        (
            {"params": [{**ASKED["params"][1], "scaleType": "UNIT_REVERSE_LOG_SCALE"}]},
            "params[0].scaleType",
        ),
    ],
)
def test_what_can_not_be_kept_is_refused_by_its_name(said: dict[str, Any], field: str) -> None:
    assert list(search_of({**ASKED, **said}).refused) == [f"hyperparameters.{field}"]


@pytest.mark.django_db
def test_a_search_is_submitted_told_with_its_trials_and_cancelled(
    submit: Any, api: Any, alice: Any, vera: Any, settle: Any, world: Any
) -> None:
    fake = world.driver_for("local")
    answer = submit()
    assert answer.status_code == 202, answer.content
    assert answer.json()["trainingOutput"]["trials"] == []
    row = Experiment.objects.get()
    assert (row.name, row.trials_max, row.parallel) == ("tune_1", 4, 2)
    steering.Turns().tick()
    for number, loss in ((1, "0.9"), (2, "0.3")):
        job = row.trials.get(number=number).job
        assert job is not None
        assert job.args[0] == "--epochs=2"
        assert [word.partition("=")[0] for word in job.args[1:]] == [
            "--learning_rate", "--layers", "--act", "--batch",
        ]  # fmt: skip
        settle(job)
        fake.write_log(str(job.uid), f"loss={loss}\n")
        fake.exit(str(job.uid), code=0)
        hint(job)
        settle(job)
    steering.Turns().tick()
    told = api(vera, "GET", f"{HERE}/tune_1").json()
    assert (told["state"], "args" in told["trainingInput"]) == ("RUNNING", False)
    output = told["trainingOutput"]
    assert output["completedTrialCount"] == "2"
    best = output["trials"][0]
    assert (best["trialId"], best["state"]) == ("2", "SUCCEEDED")
    assert best["finalMetric"] == {"trainingStep": "1", "objectiveValue": 0.3}
    assert set(best["hyperparameters"]) == {"learning_rate", "layers", "act", "batch"}
    assert api(alice, "GET", HERE).json()["results"] == []
    with CaptureQueriesContext(connection) as asked:
        listed = api(alice, "GET", f"{HERE}?searches=1").json()["results"]
    assert [one["jobId"] for one in listed] == ["tune_1"]
    assert not any('_trial"."curve",' in one["sql"] for one in asked)  # a million numbers of 2,000
    assert api(alice, "POST", f"{HERE}/tune_1/cancel").json()["state"] == "CANCELLING"
    steering.Turns().tick()
    for job in Job.objects.all():
        settle(job)
    steering.Turns().tick()
    assert api(alice, "GET", f"{HERE}/tune_1").json()["state"] == "CANCELLED"


@pytest.mark.django_db
def test_c19_each_trial_has_a_folder_of_its_own_in_the_job_dir(
    submit: Any, api: Any, alice: Any, settle: Any, world: Any, credential: Any
) -> None:
    """Called by its number, as AI Platform does it; what they leave is copied there, too."""
    credential(kind="gcs", name="google")
    folder = {"training": {"jobDir": "gs://team-bucket/tune/"}}
    told = submit(plan=True, **folder).json()
    line = next(one for one in told["fields"] if one["field"] == "jobDir")
    assert line["becomes"] == "--job-dir gs://team-bucket/tune/${trial.number}"
    assert submit(**folder).status_code == 202
    row = Experiment.objects.get()
    steering.Turns().tick()
    for number in (1, 2):
        job = row.trials.get(number=number).job
        assert job is not None
        own = f"gs://team-bucket/tune/{number}"
        assert job.args[1:3] == ["--job-dir", own]
        assert job.output == own
        settle(job)
        world.driver_for("local").write_log(str(job.uid), f"loss={number}\n")
        world.driver_for("local").exit(str(job.uid), code=0)
        hint(job)
        settle(job)
    steering.Turns().tick()
    made = api(alice, "POST", f"/api/v1/projects/vision/experiments/{row.uid}/promote", {})
    assert made.status_code in {200, 201, 202}, made.content
    best = Job.objects.get(name="tune_1-best")
    assert (best.args[2], best.output) == (("gs://team-bucket/tune/tune_1-best",) * 2)


@pytest.mark.django_db
def test_a_plan_says_each_field_and_what_a_trial_would_be(submit: Any) -> None:
    told = submit(plan=True).json()
    assert told["allowed"] is True, told
    becomes = {one["field"]: one["becomes"] for one in told["fields"]}
    assert becomes["hyperparameters.params"] == "learning_rate, layers, act, batch"
    assert becomes["hyperparameters.goal"] == "minimize"
    assert "4 trials, up to 2 at the same time." in told["plan"]["sentences"]
    too_many = submit(plan=True, params=[{**ASKED["params"][1], "minValue": "9"}]).json()
    assert (too_many["allowed"], "layers: It needs a min" in too_many["refusal"]) == (False, True)
    assert not Experiment.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"algorithm": "GRID_SEARCH"}, "parameters"),
        ({"resumePreviousJobId": "x"}, "hyperparameters.resumePreviousJobId"),
        ({"job_id": "n" * 60}, "jobId"),
        ({"goal": ["x"]}, "trainingInput.hyperparameters.goal"),
        ({"params": {"a": "b"}}, "trainingInput.hyperparameters.params"),
        ({"params": ["a"]}, "trainingInput.hyperparameters.params[0]"),
        ({"odd": "x"}, "trainingInput.hyperparameters.odd"),
    ],
)
def test_what_is_wrong_in_a_file_names_the_field(
    submit: Any, said: dict[str, Any], field: str
) -> None:
    answer = submit(**said)
    assert answer.status_code == 400, answer.content
    assert field in answer.json()["fields"]
    assert not Experiment.objects.exists()


@pytest.mark.django_db
def test_a_job_and_a_search_never_share_a_name(submit: Any, api: Any, alice: Any) -> None:
    assert submit().status_code == 202
    config = yaml.safe_dump({"trainingInput": WITHOUT})
    body = {"jobId": "tune_1", "config": config}
    assert api(alice, "POST", HERE, body).status_code == 409
    assert api(alice, "POST", HERE, {**body, "jobId": "plain"}).status_code == 202
    assert submit(job_id="plain").status_code == 409
