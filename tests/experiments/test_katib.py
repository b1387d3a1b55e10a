"""A search whose values Katib chooses: what it is told, and what happens when it does not answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from clusters import hooks
from clusters.models import Cluster
from common.clock import now
from experiments import katib, steering
from experiments.models import Experiment
from runtime.capabilities.experiments import Proposal
from runtime.hints import hint
from runtime.protocol import DriverError
from tests.experiments.conftest import HERE, LEAST

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def with_katib(api: Any, alice: Any, project: Any) -> None:
    plan = api(alice, "POST", f"{HERE}/apply?plan=1", LEAST)  # the first look makes the machine
    assert "Values are chosen by: Optuna, in this portal." in plan.json()["sentences"]
    Cluster.objects.update(operators=["katib"])


def _states(row: Experiment) -> list[str]:
    return list(row.trials.values_list("state", flat=True))


def told(fake: Any) -> list[str]:
    ((_name, made),) = fake.experiments_seen().items()
    return [one["told"] for one in made]


def test_it_proposes_and_is_told_how_each_trial_ended(begin: Any, go: Any, fake: Any) -> None:
    fake.propose(*({"x": str(n / 10)} for n in range(1, 5)))
    row = begin()
    assert (row.engine, row.cluster_key, row.template["cluster"]) == ("katib", "local", "local")
    go(row)
    assert [t.parameters["x"] for t in row.trials.all()] == [0.1, 0.2]
    go(row, "score=0.5\n", code=0)
    go(row, code=3)
    assert told(fake) == ["Succeeded", "Succeeded", "", ""]
    for _turn in range(2):
        go(row)
    assert (row.state, _states(row)) == ("succeeded", ["succeeded"] * 2 + ["failed"] * 2)
    assert not fake.experiments_seen()
    assert not row.in_katib


def test_a_worker_killed_before_it_told_tells_it_later_and_makes_no_trial_twice(
    begin: Any,
    go: Any,
    fake: Any,
) -> None:
    fake.propose(*({"x": str(n / 10)} for n in range(1, 9)))
    row = go(begin(trials_max=8), "score=0.5\n", code=0)
    fake.fail("tell_trial", "crash")
    go(row)
    assert told(fake) == ["", ""]
    go(row)
    assert (told(fake), row.trials.count()) == (["Succeeded"] * 2 + ["", ""], 4)
    assert row.trials.values("proposal").distinct().count() == 4


def test_katib_away_is_said_and_after_a_while_optuna_goes_on_with_all_trials(
    begin: Any,
    go: Any,
    fake: Any,
) -> None:
    fake.propose({"x": "0.1"}, {"x": "0.2"})
    row = go(begin(), "score=0.5\n", code=0)
    fake.fail("ensure_experiment", "denied", times=-1)
    go(row)
    assert (row.state, row.engine, row.trials.count()) == ("running", "katib", 2)
    assert "Katib does not answer" in row.message
    row.trials.update(ended_at=now() - timedelta(hours=9))  # since when it is asked is what counts
    go(row)
    assert row.engine == "katib"
    Experiment.objects.update(silent_since=now() - timedelta(seconds=steering.PATIENCE_S + 1))
    go(row)
    go(row)
    assert (row.engine, row.message, _states(row)) == (
        "instead",
        "",
        ["succeeded"] * 2 + ["running"] * 2,
    )


def test_what_it_still_holds_of_a_search_that_is_over_is_said_and_goes_later(
    begin: Any,
    go: Any,
    fake: Any,
    api: Any,
    alice: Any,
) -> None:
    fake.propose({"x": "0.1"})
    fake.fail("remove_experiment", "not-yet", times=-1)
    row = go(begin(trials_max=1, parallel=1), "score=0.5\n", code=0)
    go(row)
    assert (row.state, row.in_katib, row.message) == ("succeeded", True, "")
    Experiment.objects.update(ended_at=now() - timedelta(minutes=1))
    go(row)
    assert "Katib still holds its records" in row.message
    assert api(alice, "DELETE", f"{HERE}/{row.uid}").status_code == 409
    fake.heal()
    go(row)
    assert (row.in_katib, row.message) == (False, "")
    assert api(alice, "DELETE", f"{HERE}/{row.uid}").status_code == 204


def test_a_late_turn_takes_away_nothing_of_a_search_that_was_begun_again(
    begin: Any, go: Any, fake: Any, api: Any, alice: Any
) -> None:
    fake.propose({"x": "0.1"})
    fake.fail("remove_experiment", "not-yet", times=-1)
    row = go(begin(trials_max=1, parallel=1), "score=0.5\n", code=0)
    go(row)
    late = Experiment.objects.get(pk=row.pk)
    assert (late.state, late.in_katib) == ("succeeded", True)
    fake.heal()
    go(row)
    again = api(alice, "POST", f"{HERE}/{row.uid}/restart", {"trials_max": 2})
    assert again.status_code == 202
    fake.propose({"x": "0.2"})
    row = go(row)
    assert (row.generation, row.in_katib) == (1, True)
    there = fake.experiments_seen()
    assert there
    steering._leave_katib(late)
    assert fake.experiments_seen() == there


def test_a_search_is_changed_let_go_on_and_deleted_with_its_jobs(
    begin: Any,
    go: Any,
    fake: Any,
    api: Any,
    alice: Any,
    bob: Any,
) -> None:
    fake.propose(*({"x": str(n / 10)} for n in range(1, 9)))
    row = go(begin(trials_max=2), "score=0.5\n", code=0)
    one = f"{HERE}/{row.uid}"
    assert api(alice, "PATCH", one, {"trials_max": 2}).status_code == 400
    assert api(alice, "PATCH", one, {"parallel": 1}).status_code == 400  # all are begun
    assert api(bob, "PATCH", one, {"trials_max": 3}).status_code == 403
    go(row)
    assert row.state == "succeeded"
    assert api(alice, "PATCH", one, {"trials_max": 3}).status_code == 409
    assert api(alice, "POST", f"{one}/restart", {"trials_max": 3}).status_code == 202
    row.refresh_from_db()
    assert (row.state, row.generation, katib.spec_of(row).trials_max) == ("running", 1, 1)
    go(row, "score=0.7\n", code=0)
    go(row)
    assert (row.state, row.trials.count()) == ("succeeded", 3)
    jobs = [trial.job for trial in row.trials.all()]
    assert api(bob, "DELETE", one).status_code in {400, 403}
    assert api(alice, "DELETE", one).status_code == 204
    for job in jobs:
        job.refresh_from_db()
        assert job.desired == "absent"


def test_apply_begins_it_changes_how_long_it_goes_on_and_refuses_the_rest(
    api: Any,
    alice: Any,
    project: Any,
) -> None:
    spec = {key: value for key, value in LEAST.items() if key != "name"}
    document = {
        "apiVersion": "berth.dev/v1",
        "kind": "Experiment",
        "metadata": {"name": "search"},
        "spec": spec,
    }
    where = f"{HERE}/apply"
    plan = api(alice, "POST", f"{where}?plan=1", document)
    assert (plan.status_code, plan.json()["action"]) == (200, "create"), plan.content
    assert not Experiment.objects.exists()
    assert api(alice, "POST", where, document).status_code == 202
    document["spec"] = {**spec, "trials_max": 9}
    plan = api(alice, "POST", f"{where}?plan=1", document).json()
    assert plan["changes"] == [{"field": "trials_max", "from": 4, "to": 9}]
    assert api(alice, "POST", where, document).json()["trials_max"] == 9
    document["spec"] = {**spec, "metric": "other"}
    assert api(alice, "POST", where, document).status_code == 400
    assert Experiment.objects.count() == 1


def test_what_no_engine_there_can_is_refused_by_name(api: Any, alice: Any, project: Any) -> None:
    Cluster.objects.update(operators=[])
    answer = api(alice, "POST", HERE, {**LEAST, "algorithm": "sobol"})
    assert answer.status_code == 400
    assert "Sobol sequence needs Katib" in answer.content.decode()


def test_a_logarithm_is_asked_for_and_the_value_is_inside_its_bounds() -> None:
    lr = {"name": "lr", "type": "double", "min": 0.0001, "max": 0.1, "log": True}
    space = katib.parameter(lr)["feasibleSpace"]
    ends = [katib.values([lr], {"lr": space[end]})["lr"] for end in ("min", "max")]
    assert ends == [pytest.approx(0.0001), pytest.approx(0.1)]
    assert all(0.0001 <= end <= 0.1 for end in ends)
    layers = {"name": "layers", "type": "int", "min": 1, "max": 4}
    kind = {"name": "kind", "type": "categorical", "values": ["a", "b"]}
    said = {"layers": "3", "kind": "b"}
    assert katib.values([layers, kind], said) == {"layers": 3, "kind": "b"}


def test_a_step_is_counted_from_the_least_whoever_proposes() -> None:
    odd = {"name": "n", "type": "int", "min": 1, "max": 10, "step": 2}
    assert [katib._value(odd, text) for text in ("2", "4.9", "10")] == [1, 5, 9]
    tenths = {"name": "x", "type": "double", "min": 0.05, "max": 1.0, "step": 0.1}
    assert katib._value(tenths, "0.3") == pytest.approx(0.25)


@pytest.mark.parametrize("said", [{}, {"lr": "nan"}, {"lr": "much"}, {"lr": "1e400"}])
def test_a_proposal_that_nobody_can_read_is_none(said: dict[str, str]) -> None:
    with pytest.raises(DriverError, match="Katib proposed"):
        katib.values([{"name": "lr", "type": "double", "min": -1e308, "max": 1e308}], said)


def test_where_its_proposal_can_not_be_read_optuna_goes_on(
    begin: Any, go: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        katib, "proposed", lambda _row: (Proposal("p1", {"strange": "1"}, told=False),)
    )
    row = begin()
    for _ in range(3):
        go(row)
    row.refresh_from_db()
    assert (row.engine, row.state) == ("instead", "running")
    assert row.trials.exists()


def test_its_silence_counts_also_while_a_trial_runs(begin: Any, go: Any, fake: Any) -> None:
    """A trial of ten hours does not keep the other place empty for as long."""
    fake.propose({"x": "0.1"})
    row = go(begin())
    assert (_states(row), row.silent_since) == (["running"], None)
    go(row)
    assert row.silent_since is not None
    Experiment.objects.update(silent_since=now() - timedelta(seconds=steering.PATIENCE_S + 1))
    go(row)
    go(row)
    assert (row.engine, _states(row)) == ("instead", ["running"] * 2)


def test_a_project_has_so_many_pods_of_katib_and_its_next_search_goes_by_optuna(
    begin: Any, go: Any, api: Any, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(katib, "MOST", 1)
    first = begin()
    second = begin(name="next")
    assert (first.engine, second.engine) == ("katib", "optuna")
    refused = api(alice, "POST", HERE, {**LEAST, "name": "third", "algorithm": "sobol"})
    assert (refused.status_code, "1 searches already" in refused.json()["detail"]) == (409, True)
    Experiment.objects.update(engine="katib", cluster_key="local")  # both pressed at once
    for _turn in range(3):
        go(first)
        go(second)
    assert sorted(Experiment.objects.values_list("engine", flat=True)) == ["instead", "katib"]


def test_a_search_that_fills_katib_is_still_changed_by_its_document(
    begin: Any, api: Any, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(katib, "MOST", 1)
    begin(algorithm="sobol")
    spec = {**LEAST, "algorithm": "sobol", "trials_max": 9}
    del spec["name"]
    document = {"kind": "Experiment", "apiVersion": "berth.dev/v1", "spec": spec}
    document["metadata"] = {"name": "search"}
    answer = api(alice, "POST", f"{HERE}/apply", document)
    assert (answer.status_code, answer.json().get("trials_max")) == (202, 9), answer.content


def test_a_deleted_project_waits_until_katib_has_nothing_of_it(
    begin: Any, go: Any, fake: Any, project: Any, settle: Any
) -> None:
    fake.propose({"x": "0.1"}, {"x": "0.2"})
    row = go(begin())
    jobs = [trial.job for trial in row.trials.all()]
    type(project).objects.filter(pk=project.pk).update(
        desired="absent", generation=project.generation + 1, phase_since=now()
    )
    hint(project)
    fake.fail("remove_experiment", "not-yet", times=-1)
    settle(project)
    for job in jobs:
        settle(job)
    go(row)
    go(row)
    assert (row.state, row.reason, row.in_katib) == ("stopped", "project", True)
    settle(project)
    assert type(project).objects.get(pk=project.pk).phase == "deleting"
    fake.heal()
    go(row)
    assert not fake.experiments_seen()
    settle(project)
    assert type(project).objects.get(pk=project.pk).deleted_at is not None


def test_a_search_there_keeps_its_cluster_and_an_ended_one_does_not(begin: Any, go: Any) -> None:
    row = begin()
    (held,) = hooks.cluster_held("local")
    assert held == {"experiment": 1}
    Experiment.objects.update(state="stopped", in_katib=True)
    assert hooks.cluster_held("local") == [{}]
    Cluster.objects.filter(key="local").update(key="gone")
    go(row)
    assert not row.in_katib  # it went with the namespace
