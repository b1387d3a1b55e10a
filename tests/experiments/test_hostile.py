"""What people and programs do to a search that they should not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from experiments import reading
from experiments.models import Experiment
from jobs.models import Job
from tests.experiments.conftest import HERE, LEAST

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "said",
    [
        {"goal": "nan"},
        {"goal": "inf"},
        {"gpu_hours": "nan"},
        {"trials_max": 501},
        {"name": "n" * 51},
        {"parameters": [{"name": "x", "type": "double", "min": 1, "max": 0}]},
        {"parameters": [{"name": "x", "type": "double", "min": "nan", "max": 1}]},
        {"parameters": [{"name": "x", "type": "int", "min": 0, "max": "1e400"}]},
        {"parameters": [{"name": "学習率", "type": "double", "min": 0, "max": 1}]},
    ],
)
def test_what_is_no_search_is_refused_before_it_begins(
    said: dict[str, Any], api: Any, alice: Any, project: Any
) -> None:
    answer = api(alice, "POST", HERE, {**LEAST, **said})
    assert answer.status_code == 400, answer.content
    assert not Experiment.objects.exists()
    if "name" not in said and "parameters" not in said:
        row = api(alice, "POST", HERE, LEAST).json()
        assert api(alice, "PATCH", f"{HERE}/{row['id']}", said).status_code == 400


@pytest.mark.parametrize("name", ["名前" * 25, "n" * 50, "Ünï & <b>"])
def test_a_name_of_people_makes_trials_and_the_best_a_job_more_than_once(
    name: str, begin: Any, go: Any, api: Any, alice: Any, as_user: Any
) -> None:
    row = go(begin(name=name, trials_max=1), "score=0.5\n", code=0)
    go(row)
    assert row.state == "succeeded"
    made = [api(alice, "POST", f"{HERE}/{row.uid}/promote", {}).json()["name"] for _n in range(3)]
    assert made == [f"{name}-best", f"{name}-best-2", f"{name}-best-3"]
    assert b"<b>" not in as_user(alice).get(row.get_absolute_url()).content


def test_a_million_lines_are_read_in_turns_and_no_number_is_cut_in_two(
    begin: Any, go: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "READ", 1000)
    monkeypatch.setattr(reading, "PARTS", 8)
    real = reading.log_read

    def parts(*of: Any, offset: int) -> SimpleNamespace:
        data = real(*of, offset=offset).data[:300]
        return SimpleNamespace(data=data, next_offset=offset + len(data))

    monkeypatch.setattr(reading, "log_read", parts)
    row = go(begin(parallel=1, trials_max=1))
    go(row, "".join(f"score=0.{n:05}\n" for n in range(2000)) + "score=0.9", code=0)
    turns = 0
    while row.state == "running":
        turns += 1
        go(row)
        assert turns < 40
    trial = row.trials.get()
    assert (trial.state, trial.value, turns > 2) == ("succeeded", 0.9, True)
    assert trial.curve == [n / 100_000 for n in range(reading.CURVE)]


def test_a_program_that_says_no_number_has_said_no_metric(begin: Any, go: Any) -> None:
    said = "score=nan\nscore=inf\nscore=-inf\nscore=1e400\nscores=1\nscore = \nSCORE=1\n"
    row = go(begin(trials_max=1), said, code=0)
    go(row)
    assert list(row.trials.values_list("state", "value", "curve")) == [
        ("metric-unavailable", None, [])
    ]


def test_two_who_stop_it_at_once_are_both_right_and_the_first_says_why(
    begin: Any, go: Any, api: Any, alice: Any, mona: Any
) -> None:
    row = go(begin())
    assert api(alice, "POST", f"{HERE}/{row.uid}/stop", {}).status_code == 202
    why = {"reason": "It fills the queue."}
    assert api(mona, "POST", f"{HERE}/{row.uid}/stop", why).status_code == 202
    for _turn in range(3):
        go(row)
    assert (row.state, row.reason) == ("stopped", "stopped")
    assert api(alice, "POST", f"{HERE}/{row.uid}/stop", {}).status_code == 409
    assert Job.objects.exclude(desired="stopped").count() == 0
