"""Budgets and showback through pages, the API and CSV."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from budgets import selectors, services
from budgets.models import Budget
from clusters.models import Flavor
from common.clock import now
from events.models import Event
from projects.models import Project
from queues.models import Queue
from usage.models import Interval

pytestmark = pytest.mark.django_db
HERE = "/console/budgets/"


@pytest.fixture
def console(as_user: Any, operator: Any) -> Any:
    return as_user(operator)


def test_an_operator_makes_changes_and_deletes_one(console: Any, project: Any) -> None:
    said = {"whose": f"project:{project.uid}", "hours": "500", "days": "30", "mode": "soft"}
    assert console.post(f"{HERE}new", said).status_code == 302
    row = Budget.objects.get()
    assert (str(row), row.hours, row.mode) == ("Vision", 500, "soft")
    page = console.get(HERE).content.decode()
    assert "0 of 500 GPU-hours in 30 days" in page
    here = f"{HERE}{row.uid}/"
    changed = {"hours": "200", "days": "7", "mode": "hard", "stops": "on"}
    assert console.post(here, changed).status_code == 302
    row.refresh_from_db()
    assert (row.hours, row.days, row.mode, row.stops) == (200, 7, "hard", True)
    event = Event.objects.get(verb="budget.changed")
    assert event.message == "hours: 500 → 200, days: 30 → 7, mode: soft → hard, stops: False → True"
    assert console.post(f"{here}delete", {"confirm": "Vison"}).status_code == 422
    assert console.post(f"{here}delete", {"confirm": "Vision"}).status_code == 302
    assert not Budget.objects.exists()


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"hours": "-1"}, "hours"),
        ({"user": "nobody"}, "user"),
        ({"user": "charlie"}, "user"),
        ({"stops": "on"}, "stops"),
        ({"whose": "project:x"}, "whose"),
    ],
)
def test_what_is_wrong_stays_typed(
    console: Any, project: Any, charlie: Any, said: dict[str, str], word: str
) -> None:
    least = {"whose": f"project:{project.uid}", "hours": "5", "days": "30", "mode": "soft"}
    answer = console.post(f"{HERE}new", {**least, **said})
    assert answer.status_code in {400, 422}
    assert word in answer.context["form"].errors
    assert not Budget.objects.exists()


def test_a_second_one_of_the_same_is_refused(console: Any, project: Any) -> None:
    said = {"whose": f"project:{project.uid}", "hours": "5", "days": "30", "mode": "soft"}
    console.post(f"{HERE}new", said)
    assert console.post(f"{HERE}new", said).status_code == 409
    assert Budget.objects.count() == 1


def test_an_auditor_reads_and_changes_nothing(
    as_user: Any, auditor: Any, alice: Any, budget: Any
) -> None:
    row = budget("5")
    page = as_user(auditor).get(f"{HERE}{row.uid}/")
    assert page.status_code == 200
    assert 'type="submit">Save' not in page.content.decode()
    assert as_user(auditor).post(f"{HERE}{row.uid}/", {"hours": "9"}).status_code == 403
    assert as_user(alice).get(HERE).status_code in {403, 404}


def test_members_see_what_is_spent_and_until_when(
    as_user: Any, bob: Any, budget: Any, used: Any
) -> None:
    budget("500")
    for n in range(7):
        used(bob, hours=10, ago=24 * n + 1)
    page = as_user(bob).get("/projects/vision/").content.decode()
    assert "70 of 500 GPU-hours in 30 days" in page
    assert re.search(r"days left at this rate: until \S+\.|It does not end at this rate", page)


def test_a_card_of_a_budget_that_is_spent_promises_no_start(
    as_user: Any, bob: Any, budget: Any, used: Any, machine: Any, project: Any
) -> None:
    from notebooks.models import Preset
    from notebooks.ui.home import cards
    from quotas.selectors import Account

    Preset.objects.create(slug="gpu", name="One GPU", gpus=1, gpu_flavor="h100")
    (before,) = [card for card in cards(Account(project, bob)) if card.preset.slug == "gpu"]
    assert before.starts_now
    row = budget("10")
    used(bob, hours=10)
    (card,) = [card for card in cards(Account(project, bob)) if card.preset.slug == "gpu"]
    assert not card.starts_now
    assert "GPU-hours of Vision are spent" in card.refusal
    assert "GPU-hours of Vision are spent" in as_user(bob).get("/").content.decode()
    Budget.objects.filter(pk=row.pk).update(mode="soft")
    (card,) = [card for card in cards(Account(project, bob)) if card.preset.slug == "gpu"]
    assert card.starts_now


def test_the_api_makes_and_lists_them(
    api: Any, operator: Any, alice: Any, bob: Any, charlie: Any, project: Any, used: Any
) -> None:
    used(bob, hours=3)
    top = Queue.objects.create(name="science")
    Queue.objects.create(name=project.slug, project=project, parent=top)
    made = api(operator, "POST", "/api/v1/budgets", {"project": "vision", "hours": "12"})
    assert made.status_code == 201, made.content
    assert (made.json()["spent"], made.json()["mode"], made.json()["days"]) == (
        "3.0000",
        "soft",
        30,
    )
    for body in (
        {"project": "vision", "user": "bob", "hours": "6", "mode": "hard"},
        {"organisation": str(top.uid), "hours": "4"},
    ):
        assert api(operator, "POST", "/api/v1/budgets", body).status_code == 201
    rows = api(operator, "GET", "/api/v1/budgets").json()["results"]
    assert sorted(row["percent"] for row in rows) == [25, 50, 75]
    mine = api(bob, "GET", "/api/v1/projects/vision/budgets").json()
    assert [row["name"] for row in mine] == ["Vision", "Bob · Vision", "science"]
    others = api(alice, "GET", "/api/v1/projects/vision/budgets").json()
    assert [row["name"] for row in others] == ["Vision", "science"]
    assert api(charlie, "GET", "/api/v1/projects/vision/budgets").status_code == 404
    assert (
        api(alice, "POST", "/api/v1/budgets", {"project": "vision", "hours": 1}).status_code == 403
    )
    one = f"/api/v1/budgets/{made.json()['id']}"
    assert api(operator, "PATCH", one, {"hours": "2"}).json()["left"] == "0.0000"
    assert api(operator, "PATCH", one, {"mode": "firm"}).status_code == 400
    assert api(operator, "DELETE", one).status_code == 204
    assert api(operator, "GET", one).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"hours": 1},
        {"hours": 1, "user": "bob"},
        {"hours": 1, "project": "none"},
        {"hours": 1, "project": "vision", "organisation": str(uuid4())},
        {"hours": 1, "project": "vision", "more": 1},
        {"hours": "1e99", "project": "vision"},
        {"project": "vision"},
    ],
)
def test_what_no_budget_is_the_api_refuses(
    api: Any, operator: Any, bob: Any, project: Any, body: dict[str, Any]
) -> None:
    assert api(operator, "POST", "/api/v1/budgets", body).status_code == 400
    assert not Budget.objects.exists()


def test_who_runs_beyond_a_soft_budget_reads_so(
    as_user: Any, alice: Any, budget: Any, used: Any, job: Any, settle: Any
) -> None:
    budget("1", mode="soft")
    used(alice, hours=2)
    row = settle(job(alice))
    page = as_user(alice).get(row.get_absolute_url()).content.decode()
    assert "gives it back first" in page
    Budget.objects.all().delete()
    services.look()
    assert "gives it back first" not in as_user(alice).get(row.get_absolute_url()).content.decode()


# --- showback -----------------------------------------------------------------------------------


@pytest.fixture
def two_months(project: Any, alice: Any, bob: Any) -> None:
    """Work of two people across a midnight at the end of a month."""
    Flavor.objects.create(name="h100", label="H100", price_per_hour=Decimal("2.50"))
    begin = datetime(2026, 10, 31, 22, 0, tzinfo=UTC)
    for user, gpus in ((alice, 1), (bob, 2)):
        Interval.objects.create(
            uid=uuid4(),
            launch=1,
            kind="job",
            project_uid=project.uid,
            project_slug=project.slug,
            owner_uid=user.uid,
            owner_name=user.username,
            cluster_key="local",
            gpus=gpus,
            flavor="h100",
            started_at=begin,
            ended_at=begin + timedelta(hours=5),
        )


SPAN = "since=2026-10-01&until=2026-11-20"


def test_work_is_cut_at_the_end_of_a_month(
    two_months: Any, api: Any, auditor: Any, bob: Any, settings: Any
) -> None:
    settings.TIME_ZONE = "UTC"
    rows = api(auditor, "GET", f"/api/v1/usage/showback?{SPAN}").json()
    told = [(r["month"], r["owner"], r["kind"], r["gpu_hours"], r["cost"]) for r in rows]
    assert told == [
        ("2026-10", "alice", "h100", "2.0000", "5.00"),
        ("2026-10", "bob", "h100", "4.0000", "10.00"),
        ("2026-11", "alice", "h100", "3.0000", "7.50"),
        ("2026-11", "bob", "h100", "6.0000", "15.00"),
    ]
    assert api(bob, "GET", f"/api/v1/usage/showback?{SPAN}").status_code in {403, 404}


def test_showback_as_csv_and_as_a_page(two_months: Any, as_user: Any, alice: Any) -> None:
    client = as_user(alice)
    for path in (
        f"/projects/vision/usage/showback?{SPAN}&format=csv",
        f"/api/v1/projects/vision/usage/showback.csv?{SPAN}",
    ):
        answer = client.get(path)
        lines = b"".join(answer.streaming_content).decode().splitlines()
        assert lines[0].endswith(
            "month,project,owner,gpu_kind,gpu_hours,price_per_hour,cost,currency"
        )
        assert len(lines) == 5
    page = client.get(f"/projects/vision/usage/showback?{SPAN}").content.decode()
    assert "Alice" in page
    assert "15.00" in page
    assert "Together 15.00 GPU-hours, $37.50." in page


def test_what_is_spent_agrees_with_showback(
    two_months: Any, budget: Any, project: Any, django_assert_max_num_queries: Any
) -> None:
    from usage import selectors as usage
    from usage import showback

    span = usage.Range(now() - timedelta(days=366), now())
    row = budget("100", days=366)
    with django_assert_max_num_queries(3):
        found = showback.lines(usage.of_project(project.uid, span), span)
    hours, _cost = showback.total(found)
    assert selectors.Books.of([row]).meters[0].spent == hours
    assert Project.objects.count() == 1
