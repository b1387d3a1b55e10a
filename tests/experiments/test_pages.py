"""What the page of a search shows, and what its drawings say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from experiments import charts
from experiments.models import Experiment, Trial
from experiments.services import experiment_tensorboard
from jobs.tensorboard import tensorboard_open
from notebooks.models import Workspace
from work.services import workload_delete, workload_stop

pytestmark = pytest.mark.django_db
LR = {"name": "lr", "type": "double", "min": 0.001, "max": 0.1, "log": True}
KEEPS = {"command": ["x"], "args": ["${trialParameters.x}"], "output": "volume:shared/kept"}
KIND = {"name": "kind", "type": "categorical", "values": ["a", "b", "c"]}


def searched(project: Any, owner: Any, told: list[tuple[str, list[float]]]) -> Experiment:
    row = Experiment.objects.create(
        project=project,
        owner=owner,
        name="s",
        metric="score",
        seed=1,
        objective="minimize",
        algorithm="tpe",
        parameters=[LR, KIND],
        trials_max=300,
        parallel=2,
        failed_max=3,
        state="stopped",
        sealed={"job": json.dumps({"command": ["x"]})},
    )
    for number, (state, curve) in enumerate(told, 1):
        value = min(curve) if curve else None
        Trial.objects.create(
            experiment=row,
            number=number,
            state=state,
            curve=curve,
            value=value,
            parameters={"lr": 0.01, "kind": "abc"[number % 3]},
        )
    return row


def test_the_trials_of_a_search_stand_in_one_tensorboard(
    begin: Any, go: Any, as_user: Any, alice: Any, vera: Any, charlie: Any, api: Any, project: Any
) -> None:
    row = go(begin(trials_max=3, parallel=3, job=KEEPS), says="score=1\n")
    client = as_user(alice)
    assert "Open TensorBoard" in client.get(row.get_absolute_url()).content.decode()
    assert "Open TensorBoard" not in as_user(vera).get(row.get_absolute_url()).content.decode()
    with CaptureQueriesContext(connection) as asked:
        answer = client.post(f"{row.get_absolute_url()}tensorboard")
    assert '"curve"' not in str(asked.captured_queries)  # of each trial up to thousands of numbers
    board = Workspace.objects.get()
    assert answer["Location"] == f"{board.get_absolute_url()}?open=1"
    assert (board.name, board.logdir) == ("TensorBoard search", folders_of(row, 1, 2, 3))
    address = f"/api/v1/projects/{project.slug}/experiments/{row.uid}/tensorboard"
    row.trials.filter(number=2).update(value=9.0, state="succeeded")  # it is the best now
    assert api(alice, "POST", address).json()["workspace"] == board.short_id
    board.refresh_from_db()
    assert board.launch == 1  # the same runs in another order are the same
    assert api(vera, "POST", address).status_code == 403
    assert api(charlie, "POST", address).status_code == 404
    assert Workspace.objects.count() == 1


def test_while_a_search_goes_on_its_tensorboard_stays_one_and_shows_the_best(
    begin: Any,
    go: Any,
    settle: Any,
    principal: Any,
    alice: Any,
    bob: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jobs.tensorboard.MOST", 3)
    row = go(begin(trials_max=6, parallel=2, job=KEEPS), says="score=1\n")
    asks = principal(alice)
    own = tensorboard_open(principal=asks, row=row.trials.get(number=1).job)

    def press(who: Any = asks) -> Any:
        board = settle(experiment_tensorboard(principal=who, row=row))
        return board, board.launch, board.logdir

    first = press()[0]
    assert first.logdir == folders_of(row, 1, 2)
    row = go(go(row, says="score=1\n", code=0), says="score=5\n", code=0)  # 3 and 4 are better
    row = go(row, says="score=2\n")  # 5 and 6 run, and stand first
    shown = folders_of(row, 3, 5, 6)
    assert press() == press() == (first, 2, shown)  # it restarted with others, once
    workload_stop(principal=asks, row=first)
    settle(first)
    row.trials.filter(number=5).update(state="succeeded", value=0)
    assert press() == (first, 3, folders_of(row, 3, 4, 6))
    his = press(principal(bob))[0]
    assert Workspace.objects.count() == len({own.pk, first.pk, his.pk}) == 3
    workload_delete(principal=asks, row=first)
    assert press()[0].pk not in (own.pk, first.pk)


def folders_of(row: Experiment, *numbers: int) -> list[str]:
    jobs = [row.trials.get(number=one).job for one in numbers]
    return [f"shared/kept/{job.name}-{job.short_id}/1" for job in jobs if job is not None]


def test_a_search_that_keeps_nothing_has_no_tensorboard(
    begin: Any, go: Any, as_user: Any, alice: Any, api: Any, project: Any
) -> None:
    row = go(begin(name="bare"))
    assert "TensorBoard" not in as_user(alice).get(row.get_absolute_url()).content.decode()
    address = f"/api/v1/projects/{project.slug}/experiments/{row.uid}/tensorboard"
    refused = api(alice, "POST", address)
    assert refused.status_code == 409
    assert "name an output" in refused.json()["detail"]


def test_drawings_mark_the_best_what_was_stopped_early_and_the_bounds(
    project: Any, alice: Any
) -> None:
    told = [("succeeded", [4.0, 2.0]), ("early-stopped", [9.0, 1.0]), ("failed", []),
            ("succeeded", [3.0, 3.0])]  # fmt: skip
    row = searched(project, alice, told)
    trials = list(row.trials.all())
    drawn = charts.objective(row, trials)
    assert drawn is not None
    assert (drawn["low"], drawn["high"], len(drawn["points"])) == ("1", "3", 3)
    assert drawn["line"] == "3.0,50.0 97.0,50.0"  # what was stopped early is never the best
    lines = charts.curves(trials, trials[0])
    assert lines is not None
    ends = {one["trial"].number: one["end"] for one in lines["lines"]}
    assert (ends[1], ends[2] is None, lines["lines"][-1]["is_best"]) == (None, False, True)
    parallel = charts.parallel(row, trials, trials[0])
    assert parallel is not None
    assert [one["low"] for one in parallel["axes"]] == ["0.001", "a", "1"]
    assert (parallel["lines"][-1]["kind"], len(parallel["lines"])) == ("best", 3)
    assert charts.curves(trials[2:3], None) is charts.objective(row, trials[2:3]) is None


def test_two_hundred_trials_are_pages_the_best_first_and_read_few_curves(
    project: Any, alice: Any, as_user: Any
) -> None:
    told = [("succeeded", [float(n), n - 0.5]) for n in range(200, 0, -1)]
    row = searched(project, alice, told)
    pages = as_user(alice)
    with CaptureQueriesContext(connection) as asked:
        answer = pages.get(row.get_absolute_url())
    html = answer.content.decode()
    assert html.index('<th scope="row">200</th>') < html.index('<th scope="row">199</th>')
    assert html.count('<th scope="row">') == 50
    assert "1 to 50 of 200" in html
    assert sum("LIMIT" not in one["sql"] and '"curve"' in one["sql"] for one in asked) == 1
    assert len(answer.content) < 400_000
    by_number = pages.get(f"{row.get_absolute_url()}?order=number&page=4").content.decode()
    assert by_number.index('<th scope="row">151</th>') < by_number.index('<th scope="row">200</th>')


def test_one_whose_every_trial_failed_says_so(project: Any, alice: Any, as_user: Any) -> None:
    row = searched(project, alice, [("failed", [])] * 2)
    html = as_user(alice).get(row.get_absolute_url()).content.decode()
    assert "No trial ended well" in html
    assert '<svg class="text-primary"' not in html
    row.trials.all().delete()
    assert "No trial was begun" in as_user(alice).get(row.get_absolute_url()).content.decode()
