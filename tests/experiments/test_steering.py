"""How a search goes on, by its rows and what the machine did."""

from __future__ import annotations

import itertools
import re
from datetime import timedelta
from types import SimpleNamespace
from types import SimpleNamespace as LogPart
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from common.clock import now
from common.errors import Conflict, wrong
from experiments import reading, services, steering
from experiments.forms import EXAMPLE
from experiments.models import Experiment
from jobs.models import Job
from notifications.models import Notification
from quotas.models import Limit
from runtime.hints import hint
from tests.experiments.conftest import HERE, LEAST
from usage.models import Interval
from work.services.ending import workload_delete

pytestmark = pytest.mark.django_db


def _states(row: Experiment) -> list[str]:
    return list(row.trials.values_list("state", flat=True))


def test_so_many_run_at_once_and_it_ends_when_all_were_tried(begin: Any, go: Any) -> None:
    row = go(begin(), "score=0.5\n")
    assert _states(row) == ["running"] * 2
    go(row, "score=0.75\nscore=0.25\n", code=0)
    assert _states(row) == ["running"] * 2
    go(row, "score=0.1\n", code=0)
    assert _states(row) == ["succeeded"] * 2 + ["running"] * 2
    first = row.trials.get(number=1)
    assert (first.curve, first.value) == ([0.5, 0.75, 0.25], 0.75)
    go(row)
    assert (row.state, row.reason, row.trials.count()) == ("succeeded", "max-trials", 4)


def test_a_failed_trial_is_told_and_ends_all_only_when_too_many_fail(begin: Any, go: Any) -> None:
    row = go(begin(failed_max=2, trials_max=9), code=3)
    go(row)
    assert (row.state, _states(row)) == ("running", ["failed"] * 2 + ["running"] * 2)
    go(row, code=0)  # said no metric: as good as failed
    go(row)
    assert (row.state, row.reason) == ("failed", "too-many-failed")


def test_a_goal_that_is_reached_ends_it_and_stops_what_runs(
    begin: Any, go: Any, fake: Any, settle: Any
) -> None:
    row = go(begin(goal=0.9))
    one = row.trials.get(number=1)
    fake.write_log(str(one.job.uid), "score=0.95\n")
    fake.exit(str(one.job.uid), code=0)
    hint(one.job)
    settle(one.job)
    go(row)
    assert (row.state, row.reason) == ("stopping", "goal-reached")
    go(row)
    assert (row.state, _states(row)) == ("succeeded", ["succeeded", "stopped"])


def test_a_worker_that_is_killed_between_two_steps_makes_no_trial_twice(
    begin: Any, go: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = begin()
    real = steering.Trial.objects.create

    def killed(**columns: Any) -> Any:
        real(**columns)
        raise Conflict("killed", code="killed")

    monkeypatch.setattr(steering.Trial.objects, "create", killed)
    steering.Turns().tick()
    assert (row.trials.count(), Job.objects.count()) == (0, 0)
    monkeypatch.undo()
    go(row)
    stale = list(row.trials.all())[:1]  # what another worker read before the second was made
    assert not steering._begin(row, stale)
    assert (row.trials.count(), Job.objects.count()) == (2, 2)
    row.refresh_from_db()
    assert row.state == "running"  # a name that is taken ends no search


def test_a_trial_whose_job_is_deleted_is_over_and_the_search_goes_on(
    begin: Any, go: Any, alice: Any, principal: Any
) -> None:
    row = go(begin())
    workload_delete(principal=principal(alice), row=row.trials.get(number=1).job)
    go(row)
    assert _states(row) == ["stopped", "running", "running"]


def test_a_refusal_ends_it_once_what_runs_has_ended(
    begin: Any, go: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = begin(parallel=1)
    go(row)
    Experiment.objects.update(parallel=2)

    def refused(**_said: Any) -> Any:
        raise wrong("image", "It is gone.")

    monkeypatch.setattr(steering, "workload_create", refused)
    go(row)
    assert (row.state, row.reason, row.message) == ("stopping", "refused", "It is gone.")
    go(row)
    go(row)
    assert (row.state, row.message) == ("failed", "It is gone.")
    assert set(_states(row)) == {"stopped"}


def test_a_log_that_begins_anew_is_read_from_its_begin(
    begin: Any, go: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = go(begin(parallel=1))
    row.trials.update(log_offset=900)
    parts = [
        LogPart(data=b"", next_offset=0),
        LogPart(data=b"score=0.4\n", next_offset=10),
        LogPart(data=b"", next_offset=10),
    ]
    monkeypatch.setattr(reading, "log_read", lambda *_a, **_k: parts.pop(0))
    go(row)
    assert (row.trials.get().value, row.trials.get().log_offset) == (0.4, 10)


def test_early_stopping_compares_what_began_anew_at_its_own_step(
    begin: Any, go: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was preempted, and is as good as the others were by then."""
    row = begin(early_stopping=True, parallel=1, trials_max=5)
    for _number in range(3):
        go(row, "".join(f"score=0.{n}\n" for n in range(1, 9)), code=0)
    go(row)
    row.trials.filter(number=4).update(log_offset=900, curve=[0.1, 0.2, 0.3], value=0.3)
    said = b"score=0.1\nscore=0.2\nscore=0.3\nscore=0.32\n"
    parts = [LogPart(data=b"", next_offset=0), LogPart(data=said, next_offset=len(said))]
    rest = LogPart(data=b"", next_offset=len(said))
    monkeypatch.setattr(reading, "log_read", lambda *_a, **_k: parts.pop(0) if parts else rest)
    go(row)
    fourth = row.trials.get(number=4)
    assert (fourth.state, fourth.value) == ("running", 0.32)
    assert fourth.curve == [0.1, 0.2, 0.3, 0.32]


def test_stop_all_ends_every_trial_and_stop_one_only_that(
    begin: Any, go: Any, api: Any, alice: Any, settle: Any
) -> None:
    row = go(begin())
    assert api(alice, "POST", f"{HERE}/{row.uid}/trials/1/stop", {}).status_code == 202
    settle(row.trials.get(number=1).job)
    go(row)
    assert (row.state, _states(row)) == ("running", ["stopped", "running", "running"])
    assert api(alice, "POST", f"{HERE}/{row.uid}/stop", {}).status_code == 202
    go(row)
    go(row)
    assert (row.state, row.reason, set(_states(row))) == ("stopped", "stopped", {"stopped"})


def test_what_a_job_would_be_refused_for_is_said_before_it_begins(
    api: Any,
    alice: Any,
    project: Any,
) -> None:
    for bad in (
        {"job": {"command": ["x"], "args": ["${trialParameters.x}"], "nonsense": 1}},
        {"job": {"command": ["x"]}},
        {"parameters": []},
        {"metric": ""},
    ):
        assert api(alice, "POST", HERE, {**LEAST, **bad}).status_code == 400
    assert not Experiment.objects.exists()


def test_a_stranger_finds_no_search_and_its_pages_show_it(
    begin: Any, go: Any, api: Any, charlie: Any, as_user: Any, alice: Any
) -> None:
    row = go(begin(), "score=0.5\n", code=0)
    go(row)
    assert api(charlie, "GET", f"{HERE}/{row.uid}").status_code == 404
    pages = as_user(alice)
    for address in (HERE, f"{HERE}/new", f"{HERE}/{row.uid}"):
        path = address.removeprefix("/api/v1") + ("" if address.endswith("new") else "/")
        answer = pages.get(path)
        assert answer.status_code == 200, path
    assert b"score = 0.5" in answer.content


@pytest.mark.django_db(transaction=True)
def test_stopping_a_search_ends_its_trials_outside_of_any_transaction(
    begin: Any, go: Any, api: Any, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the duty calls it; PostgreSQL lets nobody lock rows outside of a transaction."""
    real, inside = steering.request_stop, list[bool]()

    def seen(*of: Any, **how: Any) -> bool:
        inside.append(connection.in_atomic_block)
        return real(*of, **how)

    monkeypatch.setattr(steering, "request_stop", seen)
    row = go(begin(job={**LEAST["job"], "smoke": True}))
    assert api(alice, "POST", f"{HERE}/{row.uid}/stop", {}).status_code == 202
    for _turn in range(4):
        go(row)
    assert (row.state, set(_states(row))) == ("stopped", {"stopped"})
    assert inside
    assert all(inside)


def test_an_archived_projects_search_is_over(begin: Any, go: Any, project: Any) -> None:
    row = begin()
    type(project).objects.filter(pk=project.pk).update(archived_at=now())
    go(row)
    assert (row.state, row.reason) == ("failed", "refused")
    assert "archived" in row.message


def test_the_page_begins_what_its_example_says(alice: Any, as_user: Any, project: Any) -> None:
    url = f"/projects/{project.slug}/experiments/new"
    answer = as_user(alice).post(url, {"document": EXAMPLE})
    assert answer.status_code == 302, answer.content.decode()[-3000:]
    row = Experiment.objects.get()
    assert (row.metric, row.parallel, len(row.parameters)) == ("accuracy", 2, 2)
    for text in ("[]", "kind: Job", "{", "kind: Experiment\nname: x"):
        assert as_user(alice).post(url, {"document": text}).status_code in {400, 422}, text


def test_the_form_has_a_row_per_parameter_and_begins_what_it_says(
    alice: Any, as_user: Any, project: Any
) -> None:
    url, pages = f"/projects/{project.slug}/experiments/new", as_user(alice)
    rows = {
        "parameters-TOTAL_FORMS": "2",
        "parameters-INITIAL_FORMS": "1",
        "parameters-0-name": "lr",
        "parameters-0-type": "double",
        "parameters-0-min": "0.0001",
        "parameters-0-max": "0.1",
        "parameters-0-log": "on",
        "parameters-1-name": "kind",
        "parameters-1-type": "categorical",
        "parameters-1-values": "a, b ,c",
    }
    said = {
        "name": "by form",
        "metric": "score",
        "objective": "minimize",
        "algorithm": "random",
        "job": 'command: [x, "${trialParameters.lr}", "${trialParameters.kind}"]',
        "trials_max": "6",
        "parallel": "2",
        "failed_max": "3",
        **rows,
    }
    answer = pages.post(url, {**said, "add": "1"})
    assert (answer.status_code, answer.content.count(b'class="search-parameter"')) == (200, 3)
    assert re.search(rb'name="parameters-2-name"[^>]* autofocus', answer.content)
    answer = pages.post(url, {**said, "remove": "0"})
    assert b'value="kind"' in answer.content
    assert b'value="lr"' not in answer.content
    refused = pages.post(url, {**said, "parameters-0-max": "0.00001"})
    assert (refused.status_code, b"lr: It needs a min" in refused.content) == (422, True)
    bad = pages.post(url, {**said, "job": f"{said['job']}\ncpu_milli: 1\n"})
    assert (bad.status_code, b"cpu_milli: A whole number" in bad.content) == (422, True)
    assert pages.post(url, {**said, "job": "&a [*a"}).status_code == 422
    said["job"] += "\ncpu_milli: 500\n"
    planned = pages.post(url, {**said, "plan": "1"})
    assert b"6 trials, up to 2 at the same time." in planned.content
    assert b'value="by form"' in planned.content
    assert not Experiment.objects.exists()
    assert pages.post(url, said).status_code == 302
    row = Experiment.objects.get()
    assert row.template["cpu_milli"] == 500
    assert (row.name, row.objective, row.trials_max) == ("by form", "minimize", 6)
    assert row.parameters == [
        {"name": "lr", "type": "double", "min": 0.0001, "max": 0.1, "log": True},
        {"name": "kind", "type": "categorical", "values": ["a", "b", "c"]},
    ]


def test_a_manager_stops_anothers_search_on_its_page_and_says_why(
    begin: Any, go: Any, as_user: Any, mona: Any, project: Any
) -> None:
    row = go(begin())
    pages, one = as_user(mona), f"/projects/{project.slug}/experiments/{row.uid}"
    assert b"stop-search" in pages.get(f"{one}/").content
    assert pages.post(f"{one}/stop", {}).status_code in {400, 422}
    assert pages.post(f"{one}/stop", {"reason": "It fills the queue."}).status_code == 302
    row.refresh_from_db()
    assert row.state == "stopping"


def test_it_looks_ever_more_seldom_but_at_once_when_a_trial_has_ended(
    begin: Any, go: Any, fake: Any, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looked = [1000.0], list[float]()
    real = steering.steer

    def steer(row: Experiment) -> None:
        looked.append(clock[0])
        real(row)

    row = go(begin())
    monkeypatch.setattr(steering, "steer", steer)
    monkeypatch.setattr(steering.time, "monotonic", lambda: clock[0])
    turns = steering.Turns()
    for _tick in range(60):
        turns.tick()
        clock[0] += steering.SOON_S
    pauses = [after - before for before, after in itertools.pairwise(looked)]
    assert pauses == sorted(pauses)
    assert pauses[-1] >= steering.SELDOM_S
    one = row.trials.get(number=1)
    fake.write_log(str(one.job.uid), "score=0.5\n")
    fake.exit(str(one.job.uid), code=0)
    hint(one.job)
    settle(one.job)
    turns.tick()
    assert looked[-1] == clock[0]
    assert row.trials.get(number=1).state == "succeeded"


@pytest.mark.parametrize("text", ["a: =", "<<: 5", "a: 0b_", "---\n---\na: 1", "a: " + "9" * 5000])
def test_a_document_that_is_no_yaml_of_its_types_is_said_on_the_page(
    text: str, alice: Any, as_user: Any, project: Any
) -> None:
    page = as_user(alice).post(f"/projects/{project.slug}/experiments/new", {"document": text})
    assert page.status_code in {400, 422}
    assert not Experiment.objects.exists()


def test_a_trial_that_lags_ends_early_and_is_done(
    begin: Any, go: Any, fake: Any, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = begin(early_stopping=True, parallel=1, trials_max=5, goal=0.9)
    for _number in range(3):
        go(row, "".join(f"score=0.{n}\n" for n in range(4, 9)), code=0)
    go(row, "".join("score=0.1\n" for _n in range(4)))
    real = steering.request_stop

    def killed(*_of: Any, **_how: Any) -> bool:
        raise RuntimeError

    monkeypatch.setattr(steering, "request_stop", killed)
    go(row)
    monkeypatch.setattr(steering, "request_stop", real)
    assert _states(row)[3] == "running"  # a worker that is killed there has done neither
    go(row)
    fourth = row.trials.get(number=4)
    assert (fourth.state, fourth.job.desired, fourth.job.stop_reason) == (
        *("early-stopped", "stopped", "search"),
    )
    settle(fourth.job)
    go(row, "score=0.1\n" * 3 + "score=0.95\n", code=0)  # the last of its values is the best
    go(row)
    assert (row.state, row.reason) == ("succeeded", "goal-reached")


def test_a_search_is_over_when_what_it_stopped_early_is_and_its_last_time_counts(
    begin: Any, go: Any, settle: Any
) -> None:
    row = begin(early_stopping=True, parallel=1, trials_max=4)
    for _number in range(3):
        go(row, "score=0.5\n" * 4, code=0)
    go(row, "score=0.1\n" * 4)
    go(row)
    fourth = row.trials.get(number=4)
    assert (fourth.state, row.state) == ("early-stopped", "running")
    an_hour_ago = now() - timedelta(hours=1)
    Interval.objects.filter(uid=fourth.job.uid).update(gpus=2, started_at=an_hour_ago)
    go(row)
    assert row.state == "running"
    assert row.trials.get(number=4).gpu_seconds >= 7200
    settle(fourth.job)
    Interval.objects.filter(uid=fourth.job.uid).update(started_at=an_hour_ago - timedelta(hours=1))
    go(row)
    assert (row.state, row.reason) == ("succeeded", "max-trials")
    assert row.trials.get(number=4).gpu_seconds >= 4 * 3600  # until it had ended


def test_its_owner_is_told_once_how_it_ended_and_of_no_trial(
    begin: Any, go: Any, alice: Any
) -> None:
    row = go(begin(failed_max=0), code=3)
    go(row)
    go(row)
    assert row.state == "failed"
    told = list(Notification.objects.filter(user=alice).values_list("kind", "params__name"))
    assert told == [("experiment.ended", "search")]


def test_what_a_manager_stops_and_deletes_is_told_its_owner_once(
    begin: Any, go: Any, api: Any, mona: Any, alice: Any
) -> None:
    row = go(begin())
    why = {"reason": "It fills the queue."}
    assert api(mona, "POST", f"{HERE}/{row.uid}/stop", why).status_code == 202
    for _turn in range(3):
        go(row)
    assert row.state == "stopped"
    assert api(mona, "DELETE", f"{HERE}/{row.uid}?reason=It+is+old.").status_code == 204
    assert set(Job.objects.values_list("desired", flat=True)) == {"absent"}
    told = Notification.objects.filter(user=alice).order_by("pk")
    assert [one.kind for one in told] == ["work.stopped", "work.deleted"]
    assert "It fills the queue." in told[0].params["reason"]
    assert told[1].url == "/projects/vision/experiments/"


def test_what_is_changed_during_a_turn_is_not_lost(
    begin: Any, go: Any, api: Any, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn read the row, and then its owner gave it more trials."""
    row = go(begin(trials_max=2), "score=0.5\n", code=0)
    real = steering._gpu_seconds

    def meanwhile(job: Job) -> float:
        Experiment.objects.filter(pk=row.pk).update(trials_max=3)
        return real(job)

    monkeypatch.setattr(steering, "_gpu_seconds", meanwhile)
    go(row)
    assert row.state == "running"
    monkeypatch.undo()
    go(row, "score=0.5\n", code=0)
    go(row)
    assert (row.state, row.trials.count()) == ("succeeded", 3)


def test_a_trial_larger_than_a_limit_is_refused_and_one_that_waits_is_not(
    api: Any, alice: Any, project: Any
) -> None:
    Limit.objects.create(project=project, resource="cpu_milli", amount=1000)
    large = {**LEAST, "job": {**LEAST["job"], "cpu_milli": 2000}}
    plan = api(alice, "POST", f"{HERE}/apply?plan=1", large).json()
    assert (plan["allowed"], bool(plan["refusal"])) == (False, True)
    assert api(alice, "POST", HERE, large).status_code == 409
    assert not Experiment.objects.exists()
    fits = {**LEAST, "job": {**LEAST["job"], "cpu_milli": 1000}}
    plan = api(alice, "POST", f"{HERE}/apply?plan=1", fits).json()
    assert plan["allowed"], plan
    assert "4 trials, up to 2 at the same time." in plan["sentences"]
    assert api(alice, "POST", HERE, fits).status_code == 202


def test_a_plan_counts_the_gpus_of_parameter_servers(project: Any, alice: Any) -> None:
    servers = {"parameter_servers": 3, "server_gpus": 1}
    job = Job(project=project, owner=alice, replicas=2, gpus=2, framework="tensorflow", **servers)
    row = Experiment(project=project, owner=alice, parallel=2, trials_max=4)
    told = services._sentences(row, SimpleNamespace(row=job, sentences=()))
    assert "Together they hold up to 14 GPUs." in told


def test_a_turn_in_which_nobody_says_anything_reads_no_curve_of_what_is_over(
    begin: Any, go: Any
) -> None:
    row = begin(early_stopping=True, parallel=1, trials_max=5)
    for _number in range(3):
        go(row, "score=0.5\n" * 4, code=0)
    go(row, "score=0.5\n")
    go(row)
    with CaptureQueriesContext(connection) as asked:
        steering.steer(row)
    said = [one["sql"] for one in asked if '"experiments_trial"."curve"' in one["sql"]]
    assert any("'running'" in one for one in said), said
    assert not [one for one in said if "'succeeded'" in one]
