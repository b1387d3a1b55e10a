"""E11: what Katib has of a search that has no row any more is removed; all else there stays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from clusters.models import Cluster
from common.clock import now
from events.models import Event
from experiments.models import Experiment
from jobs.models import Job
from runtime.hints import hint
from runtime.models import Installation
from runtime.orphans import collect_orphans
from tests.experiments.conftest import HERE, LEAST

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def own(api: Any, alice: Any, project: Any, fake: Any) -> str:
    """Katib is on the machine, and all that is made there has the mark of this Berth."""
    api(alice, "POST", f"{HERE}/apply?plan=1", LEAST)
    Cluster.objects.update(operators=["katib"])
    mark = str(Installation.objects.get_or_create()[0].uid)
    fake._installation = mark
    fake.propose(*({"x": str(n / 10)} for n in range(1, 7)))
    return mark


def collected(minutes: int = 10) -> int:
    """Collect as often as the worker does, that looks each minute."""
    begun, removed = now(), 0
    for minute in range(0, minutes, 2):
        with time_machine.travel(begun + timedelta(minutes=minute)):
            Installation.objects.update(alive_at=now())
            removed += collect_orphans()
    return removed


def lose(row: Experiment) -> str:
    """Take its rows away, as a database that was put back does; its jobs' stay."""
    uid = str(row.uid)
    row.trials.all().delete()
    row.delete()
    return uid


def there(fake: Any) -> list[str]:
    return [name.rpartition("-")[0] for name in fake.experiments_seen()]


def test_e11_an_experiment_without_a_search_goes_and_that_of_a_search_stays(
    begin: Any, go: Any, fake: Any
) -> None:
    kept, lost = begin(), begin(name="lost")
    go(kept)
    uid = lose(lost)
    assert collected(minutes=1) == 0  # seen once
    assert sorted(there(fake)) == sorted([str(kept.uid), uid])
    fake.fail("remove_experiment", "not-yet")
    assert collected() == 1
    assert there(fake) == [str(kept.uid)]
    event = Event.objects.get(verb="orphan.removed")
    assert (event.target_kind, event.target_name) == ("experiment", uid)


def test_e11_what_katib_kept_of_a_search_that_left_it_goes(begin: Any, go: Any, fake: Any) -> None:
    """Its cluster was forgotten, and attached anew with all that was there."""
    row = go(begin())
    Experiment.objects.filter(pk=row.pk).update(state="stopped", in_katib=False)
    assert collected() == 1
    assert there(fake) == []


def test_e11_an_experiment_of_another_berth_stays(
    begin: Any, go: Any, fake: Any, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = lose(go(begin()))
    monkeypatch.setattr(fake, "_installation", "0193f0aa-0000-7000-8000-00000000000f")
    assert collected() == 0
    monkeypatch.setattr(fake, "_installation", "")  # from before there were marks
    assert collected() == 0
    assert there(fake) == [uid]


def test_e11_an_experiment_stays_while_rows_may_be_older(begin: Any, go: Any, fake: Any) -> None:
    uid = lose(go(begin()))
    Installation.objects.update(held_why=Installation.Hold.RESTORED)
    assert collected() == 0
    unknown = Installation.objects.get().unknown
    assert [(one["kind"], one["uid"]) for one in unknown] == [("experiment", uid)]
    Installation.objects.update(held_why="")
    assert collected() == 1


def test_e11_an_orphan_that_may_not_be_removed_holds_up_no_other(
    begin: Any, go: Any, fake: Any
) -> None:
    row = go(begin())
    first, second = sorted(str(trial.job.uid) for trial in row.trials.all())[:2]
    Job.objects.filter(uid__in=(first, second)).update(deleted_at=now())
    fake.fail("remove", "denied", times=-1, uid=first)
    assert collected() == 1
    left = {found.uid for found in fake.list_owned()}
    assert first in left
    assert second not in left
    fake.heal()
    assert collected() == 1
    assert first not in {found.uid for found in fake.list_owned()}


@pytest.mark.parametrize("error", ["denied", "not-yet", "unreachable"])
def test_a_cluster_that_may_not_list_searches_still_loses_its_other_orphans(
    begin: Any, go: Any, fake: Any, error: str
) -> None:
    row = go(begin())
    fake.fail("list_experiments", error, times=-1)
    Installation.objects.update(held_why=Installation.Hold.QUIET)
    collected(minutes=1)  # what could not be seen ends no hold
    assert Installation.objects.get().held_why == ("" if error == "denied" else "quiet")
    Installation.objects.update(held_why="")
    job = row.trials.get(number=1).job
    Job.objects.filter(pk=job.pk).update(deleted_at=now())
    assert collected() == 1
    assert str(job.uid) not in {found.uid for found in fake.list_owned()}
    assert there(fake) == [str(row.uid)]


def test_katib_has_nothing_of_a_project_that_went_while_its_cluster_was_silent(
    begin: Any, go: Any, fake: Any, project: Any, settle: Any
) -> None:
    row, projects = go(begin()), type(project).objects.filter(pk=project.pk)
    jobs = [trial.job for trial in row.trials.all()]
    fake.fail("*", "unreachable", times=-1)
    Cluster.objects.update(reachable=False, checked_at=now())
    projects.update(desired="absent", generation=project.generation + 1, phase_since=now())
    hint(project)
    settle(project)
    go(row)
    long_ago = now() - timedelta(minutes=5)
    projects.update(phase_since=long_ago, next_reconcile_at=now())
    settle(project, horizon_s=0.0)
    assert project.deleted_at is not None
    assert there(fake) == [str(row.uid)]
    fake.heal()
    Cluster.objects.update(reachable=True)
    for job in jobs:
        hint(job)
        settle(job)
    for _turn in range(3):
        go(row)
    assert there(fake) == []  # its search stays, deleted, and took it away
    collected()
    assert list(fake.list_owned()) == []
