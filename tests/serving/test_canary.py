"""A canary beside an endpoint: started, given a share, promoted, taken away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from common.clock import now
from serving.services import canaries_step
from tests.serving.conftest import ENDPOINTS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]


@pytest.fixture
def first(fake, serve, version) -> Any:
    del fake
    version("v1")
    version("v2")
    return serve(model="digits/v1", command=[])


@pytest.fixture
def at(first) -> str:
    return f"{ENDPOINTS}/{first.short_id}"


@pytest.fixture
def beside(api, alice, at, settle) -> Any:
    """Put v2 beside v1 and run it as far as it comes; return its row."""
    from serving.models import Endpoint

    answer = api(alice, "POST", f"{at}/canary", {"model": "digits/v2"})
    assert answer.status_code == 202, answer.content
    return settle(Endpoint.objects.get(canary_of__isnull=False))


def _step(settle, *rows: Any) -> None:
    """Let what was decided last reach every gateway, go on, and run as far as it comes."""
    from serving.models import Endpoint

    Endpoint.objects.filter(split_at__isnull=False).update(split_at=now() - timedelta(seconds=10))
    canaries_step()
    for row in rows:
        settle(row)


def test_a_canary_is_the_same_but_for_what_was_said_and_no_list_shows_it(
    api, alice, at, beside
) -> None:
    assert (beside.model, beside.cpu_milli, beside.owner) == ("digits/v2", 2000, alice)
    rows = api(alice, "GET", ENDPOINTS).json()["results"]
    assert [one["name"] for one in rows] == ["digits"]
    told = api(alice, "GET", at).json()
    assert told["canary"] == {
        "model": "digits/v2",
        "image": "",
        "replicas": 1,
        "state": "ready",
        "why": "",
        "percent": 0,
        "leaves": False,
    }


def test_limits_count_it(beside) -> None:
    from quotas.models import Reservation

    assert Reservation.objects.filter(workload_uid=beside.uid).exists()


def test_a_share_is_one_press_and_zero_takes_it_back(api, alice, at, first, beside) -> None:
    for percent in (10, 0):
        answer = api(alice, "POST", f"{at}/canary/split", {"percent": percent})
        assert (answer.status_code, answer.json()["canary_percent"]) == (202, percent)


@pytest.mark.parametrize("percent", [-1, 101, "all", None])
def test_a_share_is_a_percentage(api, alice, at, beside, percent) -> None:
    assert api(alice, "POST", f"{at}/canary/split", {"percent": percent}).status_code == 400


@pytest.mark.parametrize(("verb", "path"), [("DELETE", ""), ("POST", "/promote")])
def test_what_has_no_canary_says_so(api, alice, at, verb, path) -> None:
    answer = api(alice, verb, f"{at}/canary{path}")
    assert (answer.status_code, answer.json()["code"]) == (409, "no-canary")


def test_there_is_one_canary(api, alice, at, beside) -> None:
    answer = api(alice, "POST", f"{at}/canary", {"model": "digits/v1"})
    assert (answer.status_code, answer.json()["code"]) == (409, "has-canary")


@pytest.mark.parametrize("name", ["cluster", "sleep_after_minutes", "wait_s"])
def test_what_is_of_the_address_is_said_of_the_endpoint(api, alice, at, name) -> None:
    said: Any = "local" if name == "cluster" else 5
    answer = api(alice, "POST", f"{at}/canary", {"model": "digits/v2", name: said})
    assert answer.status_code == 400
    assert name in answer.json()["fields"]


def test_beside_what_does_not_run_there_is_no_canary(api, alice, at, first, settle) -> None:
    api(alice, "POST", f"{at}/stop")
    settle(first)
    answer = api(alice, "POST", f"{at}/canary", {"model": "digits/v2"})
    assert (answer.status_code, answer.json()["code"]) == (409, "not-running")


def test_promoted_nothing_is_unanswered_and_the_first_row_stays(
    api, alice, at, first, beside, settle
) -> None:
    assert api(alice, "POST", f"{at}/canary/promote").json()["canary_percent"] == 100
    canaries_step()  # gateways may not have heard of it: the first still answers
    first.refresh_from_db()
    assert (first.model, first.launch) == ("digits/v1", 1)
    _step(lambda _row: None, first)
    first.refresh_from_db()  # it restarts, the canary answers
    assert (first.model, first.launch, first.canary_percent) == ("digits/v2", 2, 100)
    _step(lambda _row: None, first)  # not ready yet: nothing changes
    first.refresh_from_db()
    assert first.canary_percent == 100
    settle(first)
    _step(settle, first)
    assert (first.canary_percent, beside.desired) == (0, "running")
    _step(settle, beside, first)
    assert (beside.desired, first.promoting, first.canary) == ("absent", False, None)
    assert api(alice, "GET", at).json()["status"]["state"] == "ready"


@pytest.mark.parametrize("name", ["volumes", "credentials", "image_digest"])
def test_what_only_is_given_otherwise_is_promoted_too(
    data, first, at, api, alice, credential, settle, name
) -> None:
    """A canary that differs in no field of its own, but in what it is given or in its bytes."""
    from serving.models import Endpoint
    from work.attached import attached_to

    said: dict[str, Any] = {}
    if name == "volumes":
        said = {"volumes": [{"volume": data.name, "read_only": True}]}
    elif name == "credentials":
        credential("lake")
        said = {"credentials": ["lake"]}
    answer = api(alice, "POST", f"{at}/canary", said)
    assert answer.status_code == 202, answer.content
    canary = settle(Endpoint.objects.get(canary_of=first))
    if name == "image_digest":  # its tag was moved before the canary was made
        Endpoint.objects.filter(pk=canary.pk).update(image_digest="sha256:" + "b" * 64)
    api(alice, "POST", f"{at}/canary/promote")
    _step(settle, first)
    first.refresh_from_db()
    canary.refresh_from_db()
    assert (first.launch, first.promoting) == (2, True)
    assert first.image_digest == canary.image_digest
    assert attached_to(first).detailed() == attached_to(canary).detailed()
    _step(settle, first)
    _step(settle, canary, first)
    assert (canary.desired, first.launch, first.canary_percent) == ("absent", 2, 0)


def test_a_promotion_is_taken_back_until_the_first_row_restarts(
    api, alice, at, first, beside, settle
) -> None:
    api(alice, "POST", f"{at}/canary/promote")
    assert api(alice, "POST", f"{at}/canary/split", {"percent": 0}).status_code == 202
    _step(settle, first)
    assert (first.model, first.promoting, first.canary_percent) == ("digits/v1", False, 0)
    api(alice, "POST", f"{at}/canary/promote")
    _step(settle, first)
    for verb, path, said in (("POST", "/split", {"percent": 0}), ("DELETE", "", None)):
        answer = api(alice, verb, f"{at}/canary{path}", said)
        assert (answer.status_code, answer.json()["code"]) == (409, "promoting")


def test_a_promotion_that_is_refused_gives_all_back_to_the_first_row(
    api, alice, at, first, beside, settle, project
) -> None:
    api(alice, "POST", f"{at}/canary/promote")
    project.archived_at = now()
    project.save()
    _step(settle, first)
    assert (first.model, first.promoting, first.canary_percent) == ("digits/v1", False, 0)
    assert first.phase == "running"


def test_a_canary_that_never_gets_ready_is_not_promoted(
    api, alice, at, first, fake, settle
) -> None:
    from serving.models import Endpoint

    fake.script("*", never_ready=True)
    api(alice, "POST", f"{at}/canary", {"model": "digits/v2"})
    canary = settle(Endpoint.objects.get(canary_of=first), rounds=3)
    told = api(alice, "GET", at).json()["canary"]
    assert told["state"] == "starting"
    answer = api(alice, "POST", f"{at}/canary/promote")
    assert (answer.status_code, answer.json()["code"]) == (409, "not-ready")
    assert canary.phase == "starting"


def test_taken_away_it_ends_once_nobody_sends_it_anything(
    api, alice, at, first, beside, settle
) -> None:
    api(alice, "POST", f"{at}/canary/split", {"percent": 50})
    answer = api(alice, "DELETE", f"{at}/canary")
    assert answer.json()["canary"]["leaves"] is True
    canaries_step()
    beside.refresh_from_db()
    assert beside.desired == "running"
    _step(settle, beside, first)
    assert (beside.desired, first.canary_leaves) == ("absent", False)
    assert api(alice, "POST", f"{at}/canary", {"model": "digits/v2"}).status_code == 202


def test_it_stops_and_starts_and_goes_with_its_endpoint(
    api, alice, at, first, beside, settle
) -> None:
    api(alice, "POST", f"{at}/stop")
    assert [settle(row).phase for row in (first, beside)] == ["stopped", "stopped"]
    api(alice, "POST", f"{at}/start")
    assert [settle(row).phase for row in (first, beside)] == ["running", "running"]
    api(alice, "DELETE", at)
    for row in (first, beside):
        settle(row)
    assert first.deleted_at
    assert beside.deleted_at


def test_nobody_changes_a_canary_by_itself(api, alice, beside) -> None:
    for verb, path in (("PATCH", ""), ("POST", "/start"), ("POST", "/keys")):
        answer = api(alice, verb, f"{ENDPOINTS}/{beside.short_id}{path}", {"name": "x"})
        assert answer.status_code in {400, 403}, (verb, path)


def test_a_manager_s_canary_is_its_owner_s(api, at, mona, alice, first) -> None:
    from serving.models import Endpoint

    assert api(mona, "POST", f"{at}/canary", {"model": "digits/v2"}).status_code == 202
    assert Endpoint.objects.get(canary_of=first).owner == alice


def test_others_may_not(api, at, bob, vera, beside) -> None:
    for who in (bob, vera):
        assert api(who, "POST", f"{at}/canary/split", {"percent": 100}).status_code == 403
        assert api(who, "POST", f"{at}/canary/promote").status_code == 403
        assert api(who, "DELETE", f"{at}/canary").status_code == 403


def test_one_row_that_fails_stops_no_other_turn(
    api, alice, at, first, beside, settle, serve
) -> None:
    from serving.duty import Turns
    from serving.models import Endpoint

    broken = serve(name="broken")
    Endpoint.objects.filter(pk=broken.pk).update(kind="none-of-these", promoting=True)
    api(alice, "DELETE", f"{at}/canary")
    Endpoint.objects.filter(pk=first.pk).update(split_at=now() - timedelta(seconds=10))
    Turns().tick()
    beside.refresh_from_db()
    assert beside.desired == "absent"


@pytest.mark.parametrize("column", ["promoting", "rolls_back"])
def test_what_a_promotion_would_undo_is_refused_and_the_rest_is_changed(
    api, alice, at, first, beside, settle, data, column
) -> None:
    """It was accepted, undone without a word, and told as promoted."""
    from serving.models import Endpoint

    Endpoint.objects.filter(pk=first.pk).update(**{column: True})
    volumes = [{"volume": data.name, "read_only": True}]
    lost: Any = ({"env": {"A": "b"}}, {"model": "digits/v2"}, {"concurrency": 3})
    for said in (*lost, {"volumes": volumes}):
        answer = api(alice, "PATCH", at, said)
        assert (answer.status_code, answer.json()["code"]) == (409, "promoting"), said
    assert api(alice, "PATCH", at, {"max_replicas": 3, "wait_s": 7}).status_code == 202
    first.refresh_from_db()
    assert (first.model, first.launch, first.max_replicas) == ("digits/v1", 1, 3)
    Endpoint.objects.filter(pk=first.pk).update(promoting=True)
    _step(settle, first)  # the promotion itself gets by
    first.refresh_from_db()
    assert (first.model, first.launch) == ("digits/v2", 2)


def _fail(fake: Any, settle: Any, row: Any, **how: Any) -> None:
    fake.exit(str(row.uid), **how)
    row.__class__.objects.filter(pk=row.pk).update(next_reconcile_at=now())
    settle(row)


@pytest.mark.parametrize("code", [3, 0])
def test_a_first_row_that_failed_as_what_its_canary_is_is_started_once(
    api, alice, as_user, at, first, fake, settle, code
) -> None:
    from serving.models import Endpoint

    api(alice, "POST", f"{at}/canary", {})
    canary = settle(Endpoint.objects.get(canary_of=first))
    _fail(fake, settle, first, code=code)
    Endpoint.objects.filter(pk=first.pk).update(asked_at=now() - timedelta(hours=1))
    api(alice, "POST", f"{at}/canary/promote")
    client = as_user(alice)
    assert "Roll back" not in client.get(first.get_absolute_url()).content.decode()
    fake.script(str(first.uid), never_ready=True)
    _step(settle, first)
    first.refresh_from_db()
    assert (first.launch, first.promoting) == (2, True)
    _fail(fake, settle, first, code=code)
    for _turn in range(2):
        _step(settle, first)
    first.refresh_from_db()
    assert (first.launch, first.phase == "running", first.canary_percent) == (2, False, 100)
    fake.script(str(first.uid), never_ready=False)
    assert api(alice, "POST", f"{at}/start").status_code == 202
    settle(first)
    for _turn in range(2):
        _step(settle, canary, first)
    first.refresh_from_db()
    assert (first.launch, first.phase, first.canary, first.promoting) == (3, "running", None, False)


def test_nobody_takes_the_name_of_a_canary_and_what_has_one_keeps_it(
    api, alice, at, first, settle
) -> None:
    from serving.models import Endpoint

    name = f"canary-{first.short_id}"
    refused = api(alice, "POST", ENDPOINTS, {"name": name, "command": ["python3", "serve.py"]})
    assert refused.status_code == 400
    assert "those of canaries" in refused.json()["fields"]["name"][0]
    there = api(alice, "POST", ENDPOINTS, {"name": "before", "command": ["python3", "serve.py"]})
    row = Endpoint.objects.get(short_id=there.json()["id"])
    Endpoint.objects.filter(pk=row.pk).update(name="canary-of-before")
    edited = api(alice, "PATCH", f"{ENDPOINTS}/{row.short_id}", {"concurrency": 3})
    assert (edited.status_code, edited.json()["name"]) == (202, "canary-of-before")
    settle(first)
    assert api(alice, "POST", f"{at}/canary", {"model": "digits/v2"}).status_code == 202
    assert Endpoint.objects.get(canary_of=first).name == name
