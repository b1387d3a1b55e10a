"""What a workspace's page is told of its end, who may press what there, and who reads nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client as Browser

from common.clock import now
from common.errors import Conflict
from hubapi import notices
from hubapi.models import Activity
from hubapi.notices import Act, Notice
from tests.hubapi.conftest import World


class Provider:
    """Tells of one end, and counts who pressed."""

    def __init__(self) -> None:
        self.until = now() + timedelta(minutes=5)
        self.pressed: list[str] = []
        self.refuses = False
        self.uid: UUID | None = None

    def __call__(self, uid: UUID, reader: Any) -> list[Notice]:
        if uid != self.uid:
            return []
        act = Act("extend", "60 more", self.press)
        return [Notice("end", f"For {reader.username}", until=self.until, saves=True, acts=(act,))]

    def press(self, who: Any) -> None:
        if self.refuses:
            raise Conflict("It can be extended by at most 0 minutes more.")
        self.pressed.append(who.user.username)
        self.uid = None  # it is not about to end any more


@pytest.fixture
def provider(world: World) -> Iterator[Provider]:
    made = Provider()
    made.uid = world.info.uid
    notices.notices.register(made)
    yield made
    notices.notices.unregister(made)


def path(world: World) -> str:
    return f"/hub/api/notices/alice/{world.info.short_id}"


def ask(world: World, token: str, body: Any = None, **headers: str) -> Any:
    given = {"Authorization": f"token {token}", **headers}
    if body is None:
        return Browser().get(path(world), headers=given)
    return Browser().post(path(world), body, "application/json", headers=given)


def test_c33_the_page_is_told_and_its_owner_extends_there(
    world: World, provider: Provider, as_user: Any, alice: Any
) -> None:
    token = world.token(as_user(alice))
    (told,) = ask(world, token).json()["notices"]
    assert told == {
        "id": "end",
        "level": "warning",
        "text": "For alice",
        "until": provider.until.timestamp(),
        "saves": True,
        "acts": [{"act": "extend", "label": "60 more"}],
    }
    assert ask(world, token, {"id": "end", "act": "extend"}).json() == {"notices": []}
    again = ask(world, token, {"id": "end", "act": "extend"})  # pressed twice: it is over
    assert (again.status_code, provider.pressed) == (409, ["alice"])


def test_a_refusal_is_told_in_its_own_words(
    world: World, provider: Provider, as_user: Any, alice: Any
) -> None:
    provider.refuses = True
    answer = ask(world, world.token(as_user(alice)), {"id": "end", "act": "extend"})
    assert answer.status_code == 409
    assert answer.json()["message"] == "It can be extended by at most 0 minutes more."


def test_a_visitor_reads_the_end_and_has_no_button(
    world: World, provider: Provider, lookup: Any, as_user: Any, bob: Any
) -> None:
    lookup.share(world.info.uid, bob)
    browser = as_user(bob)
    world.consent(browser)
    token = world.token(browser)
    (told,) = ask(world, token).json()["notices"]
    assert (told["text"], told["acts"]) == ("For bob", [])
    assert ask(world, token, {"id": "end", "act": "extend"}).status_code == 403
    assert provider.pressed == []


def test_c1_another_workload_no_token_and_a_servers_token_read_nothing(
    world: World, provider: Provider, make_workload: Any, as_user: Any, alice: Any
) -> None:
    token = world.token(as_user(alice))
    other = Browser().get(
        f"/hub/api/notices/alice/{make_workload(alice).short_id}",
        headers={"Authorization": f"token {token}"},
    )
    assert other.status_code == 403
    assert ask(world, "x" * 30).status_code == 403
    assert ask(world, world.credentials.api_token).status_code == 403


def test_b5_only_the_workspaces_own_page_reads_the_answer(
    world: World, provider: Provider, as_user: Any, alice: Any
) -> None:
    token = world.token(as_user(alice))
    own = f"http://{world.info.short_id}.nb.localhost:8001"
    assert ask(world, token, Origin=own)["Access-Control-Allow-Origin"] == own
    assert "Access-Control-Allow-Origin" not in ask(world, token, Origin="http://evil.example")


@pytest.mark.parametrize("body", ["[]", "{", '{"id": 7}', '{"act": null, "id": {}}'])
def test_nonsense_presses_nothing(
    body: str, world: World, provider: Provider, as_user: Any, alice: Any
) -> None:
    assert ask(world, world.token(as_user(alice)), body).status_code in {400, 409, 422}
    assert provider.pressed == []


@pytest.mark.parametrize(("said", "seconds"), [("30", 30), ("-5", None), ("9" * 30, None)])
def test_beside_it_a_page_says_for_how_long_nobody_touched_it(
    world: World, as_user: Any, alice: Any, said: str, seconds: int | None
) -> None:
    token = world.token(as_user(alice))
    headers = {"Authorization": f"token {token}"}
    assert Browser().get(f"{path(world)}?idle={said}", headers=headers).status_code == 200
    found = Activity.objects.get(uid=world.info.uid)
    assert (found.page_at is None) is (seconds is None)
    if seconds is not None:
        assert (
            timedelta()
            <= now() - found.last_activity - timedelta(seconds=seconds)
            < timedelta(seconds=5)
        )
