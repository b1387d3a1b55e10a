"""A search of `project`, and turns of it on a machine that tests script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from experiments import steering
from experiments.models import Experiment
from runtime.hints import hint

HERE = "/api/v1/projects/vision/experiments"
LEAST: dict[str, Any] = {
    "name": "search",
    "metric": "score",
    "parameters": [{"name": "x", "type": "double", "min": 0, "max": 1}],
    "trials_max": 4,
    "parallel": 2,
    "job": {"command": ["python", "t.py"], "args": ["${trialParameters.x}"]},
}


@pytest.fixture
def fake(world: Any) -> Any:
    return world.driver_for("local")


@pytest.fixture
def begin(api: Any, alice: Any, project: Any) -> Callable[..., Experiment]:
    def make(**said: Any) -> Experiment:
        answer = api(alice, "POST", HERE, {**LEAST, **said})
        assert answer.status_code == 202, answer.content
        return Experiment.objects.get(uid=answer.json()["id"])

    return make


@pytest.fixture
def go(settle: Any, fake: Any) -> Callable[..., Experiment]:
    """Turn once; then let each running trial print ``says`` and end with ``code``."""

    def turn(row: Experiment, says: str = "", code: int | None = None) -> Experiment:
        steering.Turns().tick()
        for trial in row.trials.filter(state="running").select_related("job"):
            settle(trial.job)
            if says:
                fake.write_log(str(trial.job.uid), says)
            if code is not None:
                fake.exit(str(trial.job.uid), code=code)
                hint(trial.job)
                settle(trial.job)
        row.refresh_from_db()
        return row

    return turn
