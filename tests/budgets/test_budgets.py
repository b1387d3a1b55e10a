"""Budgets of GPU-hours: who is let in, what only borrows or waits, who is told, what is stopped."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine

from budgets import meters, selectors, services
from budgets.models import Budget
from budgets.selectors import Books
from clusters.models import Claim, Flavor
from common.clock import now
from common.errors import Forbidden, Invalid, LimitExceeded
from events.models import Event
from jobs.kind import JOB
from jobs.models import Job
from notifications.models import Notification
from projects.models import Membership, Project
from queues.models import Guarantee, Queue
from runtime.hints import hint
from work.services import workload_edit, workload_plan, workload_start
from work.waits import wait_of

pytestmark = pytest.mark.django_db


def meter(budget: Budget) -> meters.Meter:
    return Books.of([selectors.budget_get(budget.uid)]).meters[0]


def test_a_hard_budget_refuses_in_words_with_the_date_when_there_is_room(
    budget: Any, used: Any, job: Any, alice: Any
) -> None:
    budget("10", days=1)
    used(alice, hours=10, ago=2)  # begun 12 hours ago: the first falls out in 12 hours
    with time_machine.travel(now(), tick=False):
        at = now()
        with pytest.raises(LimitExceeded) as refused:
            job(alice)
        # room for an hour of one GPU: when an hour of it is out of the window
        when = meters.day(at + timedelta(hours=13))
    assert "10 of 10 GPU-hours in 1 day" in refused.value.message
    assert when in refused.value.message
    assert not Job.objects.exists()
    too_soon = time_machine.travel(at + timedelta(hours=12, minutes=59), tick=False)
    with too_soon, pytest.raises(LimitExceeded):
        job(alice)
    with time_machine.travel(at + timedelta(hours=13, seconds=1), tick=False):
        assert job(alice).launch == 1


def test_what_has_no_gpu_asks_no_budget(budget: Any, job: Any, alice: Any) -> None:
    budget("0")
    assert job(alice, gpus=0, gpu_flavor="").launch == 1


def test_of_two_launches_for_the_last_hour_one_is_refused(
    budget: Any, job: Any, alice: Any, bob: Any
) -> None:
    """The first has used nothing of it yet."""
    budget("1")
    assert job(alice).launch == 1
    with pytest.raises(LimitExceeded):
        job(bob)
    assert Job.objects.count() == 1


def test_a_short_time_limit_needs_less_room(budget: Any, job: Any, alice: Any) -> None:
    budget("0.25")
    with pytest.raises(LimitExceeded):
        job(alice)
    assert job(alice, time_limit_minutes=15).launch == 1


def test_a_kind_counts_by_its_weight(budget: Any, used: Any, job: Any, alice: Any) -> None:
    kept = budget("10")
    used(alice, hours=5)
    assert meter(kept).spent == 5
    Flavor.objects.filter(name="h100").update(weight=Decimal("0.4"))
    assert meter(kept).spent == 2
    Budget.objects.update(hours=Decimal("2.8"))
    job(alice, gpus=2)  # its first hour counts 0.8
    with pytest.raises(LimitExceeded):
        job(alice)


def test_what_runs_counts_until_this_moment(budget: Any, job: Any, settle: Any, alice: Any) -> None:
    kept = budget("10")
    row = settle(job(alice, gpus=2))
    assert row.phase == "running"
    with time_machine.travel(row.started_at + timedelta(hours=3), tick=False):
        assert meter(kept).spent == 6
        Budget.objects.update(hours=7)
        assert job(alice).launch == 1  # the other's first hour is used


def test_a_person_has_a_budget_of_their_own(
    budget: Any, used: Any, job: Any, alice: Any, bob: Any
) -> None:
    budget("2", user=bob)
    used(bob, hours=2)
    with pytest.raises(LimitExceeded) as refused:
        job(bob)
    assert "Bob" in refused.value.message
    assert job(alice).launch == 1


def test_an_organisation_counts_all_projects_below_it(
    budget: Any, used: Any, job: Any, alice: Any, project: Any
) -> None:
    top = Queue.objects.create(name="science")
    below = Queue.objects.create(name="physics", parent=top)
    Queue.objects.create(name=project.slug, project=project, parent=below)
    other = Project.objects.create(slug="other", name="Other", phase="running")
    Queue.objects.create(name="other", project=other, parent=top)
    stranger = Project.objects.create(slug="stranger", name="Stranger", phase="running")
    kept = budget("6", project=None, organisation=top)
    used(alice, hours=2)
    used(alice, hours=3, project_uid=other.uid)
    used(alice, hours=9, project_uid=stranger.uid)
    assert meter(kept).spent == 5
    job(alice)
    used(alice, hours=1, project_uid=other.uid)
    with pytest.raises(LimitExceeded):
        job(alice)


def test_beyond_a_soft_budget_work_only_borrows_and_gives_back_first(
    budget: Any, used: Any, job: Any, settle: Any, alice: Any, machine: Any, project: Any
) -> None:
    own = Queue.objects.create(name=project.slug, project=project)
    kind = Flavor.objects.get(name="h100")
    Guarantee.objects.create(queue=own, cluster=machine, flavor=kind, guaranteed=2)
    other = Project.objects.create(slug="other", name="Other", phase="running")
    Membership.objects.create(project=other, user=alice, role="owner")
    Guarantee.objects.create(
        queue=Queue.objects.create(name="other", project=other),
        cluster=machine,
        flavor=kind,
        guaranteed=1,
    )
    budget("1", mode="soft")
    used(alice, hours=2)
    first, second = settle(job(alice)), settle(job(alice))
    assert [first.phase, second.phase] == ["running", "running"]
    assert {first.over_budget, second.over_budget} == {"borrows"}
    assert set(Claim.objects.values_list("over_budget", flat=True)) == {"borrows"}

    owed = Job.objects.create(
        project=other,
        owner=alice,
        name="owed",
        environment="jupyterlab",
        command=["x"],
        launch=1,
        gpus=1,
        gpu_flavor="h100",
        cpu_milli=100,
        memory_mib=256,
        asked_at=now(),
        next_reconcile_at=now(),
    )
    for _look in range(6):
        settle()
        for row in (first, second, owed):
            hint(row)
    told = [
        row.name
        for row in (first, second)
        if not Claim.objects.get(workload_uid=row.uid).granted_at
    ]
    assert len(told) == 1, "both are within their project's guarantee, but for the budget"
    assert Job.objects.get(pk=owed.pk).phase == "running"


def test_running_work_falls_to_borrowing_when_its_budget_is_spent_and_rises_again(
    budget: Any, used: Any, job: Any, settle: Any, alice: Any, world: Any
) -> None:
    kept = budget("4", mode="soft", days=1)
    row = settle(job(alice))
    services.look()
    assert Job.objects.get().over_budget == ""
    spent = used(alice, hours=5)
    services.look()
    assert Job.objects.get().over_budget == "borrows"
    assert Claim.objects.get().over_budget == "borrows"
    settle(row)
    assert row.phase == "running"
    driver = world.driver_for("local")
    assert driver.calls("stand") == 1  # where the cluster keeps the line it is told, and once
    settle(row)
    assert driver.calls("stand") == 1
    spent.delete()
    services.look()
    assert (Job.objects.get().over_budget, Claim.objects.get().over_budget) == ("", "")
    driver.fail("stand", "unreachable")
    settle(row)
    settle(row)
    assert (row.phase, driver.calls("stand")) == ("running", 3)
    used(alice, hours=5)
    services.look()
    services.budget_delete(principal=_operator(), budget=selectors.budget_get(kept.uid))
    services.look()
    assert (Job.objects.get().over_budget, Claim.objects.get().over_budget) == ("", "")


def _operator() -> Any:
    from accounts.models import User
    from accounts.principal import Principal

    return Principal(user=User.objects.get(username="olga"), token=None, ip="127.0.0.1")


def test_what_waits_is_held_back_by_a_hard_budget_and_says_until_when(
    budget: Any, used: Any, job: Any, settle: Any, alice: Any, principal: Any
) -> None:
    budget("20", days=1)
    running, waits = settle(job(alice, gpus=2)), settle(job(alice, gpus=2))
    assert waits.reason == "queued"
    spent = used(alice, hours=20)
    services.look()
    settle(waits)
    assert (waits.phase, waits.reason) == ("pending", "budget")
    told = wait_of(principal(alice), waits)
    assert told is not None
    assert "There is room again on" in told.sentence
    settle(running)
    assert running.phase == "running", "what runs goes on"
    spent.delete()
    services.look()
    settle(waits)
    assert waits.reason == "queued"


def test_what_runs_is_stopped_where_the_budget_says_so(
    budget: Any, used: Any, job: Any, settle: Any, alice: Any, bob: Any
) -> None:
    budget("10", stops=True)
    mine = settle(job(alice))
    plain = settle(job(bob, gpus=0, gpu_flavor=""))
    used(alice, hours=10)
    services.look()
    settle()
    mine.refresh_from_db()
    plain.refresh_from_db()
    assert (mine.desired, mine.stop_reason) == ("stopped", "budget")
    assert plain.desired == "running"
    with pytest.raises(LimitExceeded):
        workload_start(principal=_as(alice), row=mine)


def _as(user: Any) -> Any:
    from accounts.principal import Principal

    return Principal(user=user, token=None, ip="127.0.0.1")


def test_it_is_told_at_80_and_at_100_per_cent_once_in_a_window(
    budget: Any, used: Any, alice: Any, bob: Any, mona: Any
) -> None:
    kept = budget("10", days=2, mode="soft")
    used(alice, hours=7)
    assert services.look() == 0
    used(alice, hours=1)
    assert [services.look() for _n in range(3)] == [1, 0, 0]
    assert set(Notification.objects.values_list("user__username", "kind")) == {
        ("alice", "budget.nearly"),
        ("mona", "budget.nearly"),
    }
    used(alice, hours=2)
    assert [services.look() for _n in range(3)] == [1, 0, 0]
    assert Notification.objects.filter(kind="budget.spent").count() == 2
    verbs = ["budget.nearly-spent", "budget.spent"]
    assert list(
        Event.objects.filter(verb__startswith="budget.").order_by("id").values_list("verb")
    )[1:] == [(verb,) for verb in verbs]
    with time_machine.travel(now() + timedelta(days=2, minutes=1)):
        used(bob, hours=10)
        assert services.look() == 1
    services.budget_change(
        principal=_operator(), budget=selectors.budget_get(kept.uid), values={"hours": 9}
    )
    assert services.look() == 1, "other numbers are told anew"


def test_e_clock_step_back_counts_nothing_twice_and_tells_nothing_twice(
    budget: Any, used: Any, alice: Any
) -> None:
    kept = budget("10", mode="soft")
    used(alice, hours=10)
    services.look()
    with time_machine.travel(now() - timedelta(hours=3)):
        assert meter(kept).spent < 9
        assert services.look() == 0
        used(alice, hours=2, ago=0)  # what is written now seems to be older than what was
        assert round(meter(kept).spent, 3) <= 10
    assert meter(kept).spent == 12
    assert services.look() == 0


def test_a_budget_may_be_set_below_what_is_spent(
    budget: Any, used: Any, job: Any, settle: Any, alice: Any
) -> None:
    kept = budget("100")
    row = settle(job(alice))
    used(alice, hours=50)
    services.budget_change(
        principal=_operator(), budget=selectors.budget_get(kept.uid), values={"hours": 10}
    )
    there = meter(kept)
    assert (there.left, there.percent) == (0, 500)
    services.look()
    settle(row)
    assert row.phase == "running"
    with pytest.raises(LimitExceeded):
        job(alice)


def test_the_plan_says_what_the_launch_would(
    budget: Any, used: Any, machine: Any, project: Any, principal: Any, alice: Any
) -> None:
    kept = budget("10")
    used(alice, hours=10)
    said = {"command": ["x"], "gpus": 1, "gpu_flavor": "h100"}
    asked = {"principal": principal(alice), "project": project, "kind": JOB, "said": said}
    plan = workload_plan(**asked)
    assert not plan.allowed
    assert "GPU-hours of Vision are spent" in plan.refusal
    services.budget_change(principal=_operator(), budget=kept, values={"mode": "soft"})
    plan = workload_plan(**asked)
    assert plan.allowed
    assert any("gives it back first" in sentence for sentence in plan.sentences)


def test_an_edit_that_restarts_asks_too_and_counts_itself_once(
    budget: Any, job: Any, settle: Any, alice: Any, principal: Any
) -> None:
    budget("2")
    row = job(alice, gpus=1)
    with pytest.raises(LimitExceeded):
        workload_edit(principal=principal(alice), row=row, said={"gpus": 3})
    assert workload_edit(principal=principal(alice), row=row, said={"gpus": 2}).gpus == 2


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"hours": -1}, "hours"),
        ({"hours": Decimal("NaN")}, "hours"),
        ({"hours": "many"}, "hours"),
        ({"days": 0}, "days"),
        ({"days": 400}, "days"),
        ({"mode": "firm"}, "mode"),
        ({"mode": "soft", "stops": True}, "stops"),
    ],
)
def test_what_no_budget_can_be_is_refused(budget: Any, values: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        budget(**{"hours": "1", **values})
    assert field in refused.value.fields
    assert not Budget.objects.exists()


def test_only_operators_set_one(budget: Any, alice: Any, principal: Any, project: Any) -> None:
    with pytest.raises(Forbidden):
        services.budget_make(principal=principal(alice), values={"hours": 1}, project=project)
    kept = budget("1")
    for act in (services.budget_change, services.budget_delete):
        values = {"values": {"hours": 5}} if act is services.budget_change else {}
        with pytest.raises(Forbidden):
            act(principal=principal(alice), budget=kept, **values)


def test_a_stranger_has_no_budget_in_a_project(budget: Any, charlie: Any) -> None:
    with pytest.raises(Invalid):
        budget("1", user=charlie)


def test_reading_costs_the_same_for_one_and_for_many(
    budget: Any, used: Any, alice: Any, django_assert_max_num_queries: Any
) -> None:
    top = Queue.objects.create(name="top")
    budget("1", project=None, organisation=top)
    for n in range(5):
        made = Project.objects.create(slug=f"p{n}", name=f"P {n}")
        Queue.objects.create(name=made.slug, project=made, parent=top)
        budget("5", project=made, days=n + 1)
        used(alice, hours=1, project_uid=made.uid)
    with django_assert_max_num_queries(3):
        books = Books.of(selectors.every())
    assert [int(one.spent) for one in books.meters] == [1, 1, 1, 1, 1, 5]
