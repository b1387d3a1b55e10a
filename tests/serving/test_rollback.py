"""What an endpoint served is remembered, and the version before is one press away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from common.clock import now
from serving.models import Served
from serving.services import canaries_step
from tests.serving.conftest import ENDPOINTS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]


@pytest.fixture
def first(fake, serve, version) -> Any:
    del fake
    for name in ("v1", "v2", "v3"):
        version(name)
    return serve(model="digits/v1", command=[])


@pytest.fixture
def at(first) -> str:
    return f"{ENDPOINTS}/{first.short_id}"


def turn(settle: Any) -> None:
    """Let every gateway have heard, do what is due, and run it as far as it comes."""
    from serving.models import Endpoint

    Endpoint.objects.filter(split_at__isnull=False).update(split_at=now() - timedelta(seconds=10))
    canaries_step()
    settle()


def promote(api: Any, who: Any, at: str, settle: Any, **said: Any) -> None:
    assert api(who, "POST", f"{at}/canary", said).status_code == 202
    settle()
    assert api(who, "POST", f"{at}/canary/promote").status_code == 202
    for _ in range(4):
        turn(settle)


def served(api: Any, who: Any, at: str) -> list[tuple[str, str, str | None]]:
    rows = api(who, "GET", f"{at}/served").json()["results"]
    return [(one["serves"], one["how"], one["by"]) for one in rows]


def test_a_press_to_roll_back_is_for_what_the_page_showed(
    api, alice, at, first, settle, client
) -> None:
    """Of two people who press it the second would take back what the first has just done."""
    promote(api, alice, at, settle, model="digits/v2")
    seen = Served.objects.filter(endpoint=first).order_by("pk").first().pk
    client.force_login(alice)
    page = f"/projects/vision/endpoints/{first.short_id}/"
    assert f'name="seen" value="{seen}"' in client.get(page).content.decode()
    assert client.post(f"{page}roll-back/", {"seen": seen}).status_code == 302
    settle()
    for _ in range(4):
        turn(settle)
    assert served(api, alice, at)[0][0] == "digits/v1"
    late = client.post(f"{page}roll-back/", {"seen": seen})
    assert late.status_code == 409
    assert "It serves something else by now" in late.content.decode()
    settle()
    first.refresh_from_db()
    assert (first.model, first.canary) == ("digits/v1", None)


def test_after_a_promotion_one_press_serves_what_was_served_before(
    api, alice, mona, at, first, settle
) -> None:
    """Nothing is unanswered: both rows are never away at once."""
    api(alice, "PATCH", at, {"env": {"TUNED": "yes"}, "cpu_milli": 1000})
    settle(first)
    promote(api, mona, at, settle, model="digits/v2", env={}, cpu_milli=3000)
    first.refresh_from_db()
    assert (first.model, first.env, first.cpu_milli) == ("digits/v2", {}, 3000)
    answer = api(mona, "POST", f"{at}/roll-back")
    assert (answer.status_code, answer.json()["rolls_back"]) == (202, True)
    settle()
    for _ in range(5):
        first.refresh_from_db()
        canary = first.canary
        assert "running" in {first.phase, canary.phase if canary else ""}
        turn(settle)
    first.refresh_from_db()
    assert (first.model, first.cpu_milli, dict(first.env)) == ("digits/v1", 1000, {"TUNED": "yes"})
    assert (first.canary, first.rolls_back, first.promoting, first.canary_percent) == (
        *(None, False, False),
        0,
    )
    assert served(api, alice, at) == [
        ("digits/v1", "rolled-back", "mona"),
        ("digits/v2", "promoted", "mona"),
        ("digits/v1", "edited", "alice"),
        ("digits/v1", "deployed", "alice"),
    ]


def test_what_has_served_nothing_else_says_so(api, alice, at) -> None:
    answer = api(alice, "POST", f"{at}/roll-back")
    assert (answer.status_code, answer.json()["code"]) == (409, "nothing-before")


def test_scaling_waking_and_starting_again_are_no_history(api, alice, at, first, settle) -> None:
    for verb in ("stop", "start"):
        api(alice, "POST", f"{at}/{verb}")
        settle(first)
    assert len(served(api, alice, at)) == 1


def test_a_version_before_that_does_not_start_leaves_all_as_it_is(
    api, alice, at, first, fake, settle
) -> None:
    from notifications.models import Notification

    promote(api, alice, at, settle, model="digits/v2")
    api(alice, "POST", f"{at}/roll-back")
    settle()
    first.refresh_from_db()
    fake.exit(str(first.canary.uid), code=3)
    first.canary.__class__.objects.filter(canary_of=first).update(next_reconcile_at=now())
    settle()
    for _ in range(3):
        turn(settle)
    first.refresh_from_db()
    assert (first.model, first.phase, first.canary_percent) == ("digits/v2", "running", 0)
    assert (first.rolls_back, first.promoting) == (False, False)
    (told,) = Notification.objects.filter(user=alice, kind="endpoint.canary-failed")
    assert told.params["name"] == "digits"


def test_a_version_that_is_gone_is_not_rolled_back_to(api, alice, at, settle) -> None:
    from serving.models import ModelVersion

    promote(api, alice, at, settle, model="digits/v2")
    ModelVersion.objects.get(name="v1").delete()
    answer = api(alice, "POST", f"{at}/roll-back")
    assert answer.status_code == 400
    assert "digits/v1" in answer.content.decode()


def test_whoever_sets_a_share_goes_on_by_hand(api, alice, at, first, settle) -> None:
    promote(api, alice, at, settle, model="digits/v2")
    api(alice, "POST", f"{at}/roll-back")
    settle()
    api(alice, "POST", f"{at}/canary/split", {"percent": 10})
    for _ in range(3):
        turn(settle)
    first.refresh_from_db()
    assert (first.model, first.canary_percent, first.rolls_back) == ("digits/v2", 10, False)


def test_a_first_row_that_failed_is_started_as_what_is_promoted(
    api, alice, at, first, fake, settle
) -> None:
    """And what it needs no restart for goes with it, but its bounds."""
    said = {"model": "digits/v2", "concurrency": 3, "max_replicas": 7}
    api(alice, "POST", f"{at}/canary", said)
    settle()
    fake.exit(str(first.uid), code=3)
    first.__class__.objects.filter(pk=first.pk).update(next_reconcile_at=now())
    assert settle(first).phase == "failed"
    api(alice, "POST", f"{at}/canary/promote")
    for _ in range(4):
        turn(settle)
    first.refresh_from_db()
    assert (first.model, first.phase, first.launch) == ("digits/v2", "running", 2)
    assert (first.concurrency, first.max_replicas, first.canary) == (3, 1, None)


def test_what_alone_needs_no_restart_is_promoted_without_one(api, alice, at, first, settle) -> None:
    promote(api, alice, at, settle, concurrency=3)
    first.refresh_from_db()
    assert (first.concurrency, first.launch, first.canary) == (3, 1, None)


def test_others_read_and_do_not_roll_back(api, alice, bob, vera, at, settle) -> None:
    promote(api, alice, at, settle, model="digits/v2")
    for who in (bob, vera):
        assert api(who, "POST", f"{at}/roll-back").status_code == 403
        assert len(served(api, who, at)) == 2


def test_the_page_shows_it_and_has_the_button(api, alice, as_user, at, first, settle) -> None:
    promote(api, alice, at, settle, model="digits/v2")
    page, client = first.get_absolute_url(), as_user(alice)
    text = client.get(page).content.decode()
    assert "Roll back to digits/v1" in text
    assert "Canary promoted" in text
    assert client.post(f"{page}roll-back/").status_code == 302
    first.refresh_from_db()
    assert first.canary.model == "digits/v1"
    text = client.get(page).content.decode()
    assert "as soon as it answers it gets all requests" in text
    assert "Roll back to" not in text


def test_an_endpoint_that_failed_is_told_to_its_owner(alice, first, fake, settle) -> None:
    from notifications.models import Notification

    fake.exit(str(first.uid), code=3)
    first.__class__.objects.filter(pk=first.pk).update(next_reconcile_at=now())
    settle(first)
    assert Notification.objects.filter(user=alice, kind="endpoint.failed").count() == 1


def test_a_canary_that_was_parked_ends_the_way_back_and_is_not_started_by_more_replicas(
    api, alice, at, first, fake, settle
) -> None:
    from serving.services.scale import replicas_set
    from work.choices import StopReason
    from work.services.ending import request_stop

    api(alice, "PATCH", at, {"max_replicas": 3})
    promote(api, alice, at, settle, model="digits/v2")
    api(alice, "POST", f"{at}/roll-back")
    first.refresh_from_db()
    fake.script(str(first.canary.uid), never_ready=True)
    canary = settle(first.canary)
    request_stop(canary, reason=StopReason.PARKED, actor=None)
    canary = settle(canary)
    assert replicas_set(first, 2)
    canary.refresh_from_db()
    assert (canary.desired, canary.launch) == ("stopped", 1)
    turn(settle)
    first.refresh_from_db()
    assert (first.model, first.replicas, first.rolls_back) == ("digits/v2", 2, False)
    assert (first.promoting, first.canary_percent) == (False, 0)


@pytest.mark.parametrize("by", ["promotion", "edit"])
def test_one_older_than_its_history_keeps_what_it_served_first(
    api, alice, mona, at, first, settle, by
) -> None:
    from serving.models import Served
    from serving.services.scale import replicas_set

    first.__class__.objects.filter(pk=first.pk).update(max_replicas=3)
    Served.objects.all().delete()
    first.refresh_from_db()
    asked_at = first.asked_at
    assert replicas_set(first, 2)
    assert served(api, alice, at) == []  # more replicas are no history
    if by == "promotion":
        promote(api, mona, at, settle, model="digits/v2")
        after = ("digits/v2", "promoted", "mona")
    else:
        assert api(mona, "PATCH", at, {"model": "digits/v2"}).status_code == 202
        settle(first)
        after = ("digits/v2", "edited", "mona")
    assert served(api, alice, at) == [after, ("digits/v1", "deployed", "alice")]
    (kept,) = Served.objects.filter(how="deployed")
    assert (kept.at, kept.launch) == (asked_at, 1)
    assert api(mona, "POST", f"{at}/roll-back").status_code == 202
