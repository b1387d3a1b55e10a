"""E17: loads take turns inside a project, and a project's backlog is in nobody else's way."""

from typing import Any

import pytest

from common.clock import now
from loaders import services
from loaders.choices import State
from loaders.concurrency import turn_of
from loaders.models import Load
from loaders.states import state_of
from runtime import due_scheduler, engine
from tests.support.workloads import insert
from work import services as work

BASE = "/projects/vision/loads/"


@pytest.fixture(autouse=True)
def two_at_once(settings: Any) -> None:
    settings.BERTH_LOADS_PER_PROJECT = 2


def test_the_others_wait_with_position_and_sentence(load, alice, settle):
    rows = [load(alice, f"s3://bucket/{n}") for n in range(4)]
    settle()
    for row in rows:
        row.refresh_from_db()
    assert [row.phase for row in rows] == ["running", "running", "pending", "pending"]
    assert rows[3].reason == "queued"
    assert "2 loads of the project run at once; position 2" in rows[3].message


def test_whose_turn_it_is_is_said_in_the_readers_language(load, alice, settle, as_user, end):
    rows = [load(alice, f"s3://bucket/{n}") for n in range(4)]
    settle()
    alice.language = "ja"
    alice.save()
    page = as_user(alice).get(f"{BASE}{rows[3].uid}/").content.decode()
    assert "順番を待っています" in page
    assert "loads of the project run at once" not in page
    end(rows[0])
    rows[2].refresh_from_db()
    assert "turn" not in rows[2].external_ref  # it came


def test_who_ends_lets_the_next_one_in_and_the_rest_moves_up(load, alice, settle, end):
    rows = [load(alice, f"s3://bucket/{n}") for n in range(4)]
    settle()
    end(rows[0])
    for row in rows:
        row.refresh_from_db()
    assert [row.phase for row in rows[1:]] == ["running", "running", "pending"]
    assert "position 1" in rows[3].message


def test_a_paused_load_gives_its_turn_back_and_asks_anew_at_the_end(load, alice, settle, principal):
    rows = [load(alice, f"s3://bucket/{n}") for n in range(3)]
    settle()
    work.workload_stop(principal=principal(alice), row=rows[0])
    settle()
    services.load_resume(principal=principal(alice), row=rows[0])
    settle()
    for row in rows:
        row.refresh_from_db()
    assert [row.phase for row in rows] == ["pending", "running", "running"]
    assert state_of(rows[0]) == State.WAITING


@pytest.mark.long("ten thousand; the order itself: the tests beside it")
def test_e17_ten_thousand_loads_of_one_project_hold_two_places_and_no_more(load, alice, make_user):
    from clusters.models import Claim
    from projects.models import Membership, Project
    from volumes.services.create import project_volume_ensure

    greta = make_user("greta")
    crowd = Project.objects.create(slug="crowd", name="Crowd", phase="running")
    Membership.objects.create(project=crowd, user=greta, role="owner")
    volume = project_volume_ensure(principal=None, project=crowd)
    insert(
        Load(
            project=crowd,
            owner=greta,
            name=f"load-{n}",
            volume=volume,
            anonymous=True,
            store_kind="s3",
            bucket="bucket",
            fingerprint=str(n),
            launch=1,
            asked_at=now(),
            next_reconcile_at=now(),
        )
        for n in range(10_000)
    )
    mine = load(alice)
    items = due_scheduler.due_items()
    assert items.index(("load", mine.pk)) < 6
    for kind, pk in items[:60]:
        engine.reconcile_one(kind, pk)
    mine.refresh_from_db()
    assert mine.phase == "running"
    assert Claim.objects.filter(project_uid=crowd.uid).count() == 2


def test_who_is_far_back_looks_seldom_because_those_before_it_wake_it(load, alice, settle):
    rows = [load(alice, f"s3://bucket/{n}") for n in range(9)]
    settle()
    last = rows[-1]
    last.refresh_from_db()
    assert turn_of(last).ahead == 8
    assert (last.next_reconcile_at - now()).total_seconds() > 200


def test_the_page_says_the_position_as_it_is_now(load, alice, settle, as_user, end):
    rows = [load(alice, f"s3://bucket/{n}") for n in range(5)]
    settle()
    text = as_user(alice).get(f"{BASE}{rows[4].uid}/").content.decode()
    assert "Position 3 in the line" in text


def test_e17_those_before_it_are_counted_up_to_a_bound_and_the_sentence_says_so(
    load, alice, settle, monkeypatch
):
    monkeypatch.setattr("loaders.reconciler.COUNTED", 5)
    monkeypatch.setattr("loaders.concurrency.COUNTED", 5)
    rows = [load(alice, f"s3://bucket/{n}") for n in range(9)]
    settle()
    for row in rows:
        row.refresh_from_db()
    assert rows[4].message.endswith("position 3.")
    assert rows[8].message.endswith("5 or more are before it.")
    assert turn_of(rows[8]).position == 7  # a page counts them all
