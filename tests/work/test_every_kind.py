"""What holds for each kind of work: listed, planned, applied, started, stopped, deleted, by whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.work.kinds import KINDS, Kind

pytestmark = pytest.mark.django_db
Api = Callable[..., Any]
ROLES = {"alice": "owner", "mona": "manager", "bob": "member", "vera": "viewer", "charlie": ""}


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest, project: Any) -> Kind:
    found: Kind = request.param
    for name in found.needs:
        request.getfixturevalue(name)
    return found


@pytest.fixture
def make(api: Api, kind: Kind, settle: Any) -> Callable[..., str]:
    """Make one as somebody and let the engine work; return its address."""

    def run(user: Any, **body: Any) -> str:
        answer = api(user, "POST", kind.url, {**kind.least, **body})
        assert answer.status_code == 202, answer.content
        settle()
        return f"{kind.url}/{answer.json()['id']}"

    return run


def listed(api: Api, user: Any, kind: Kind) -> list[str]:
    return [row["id"] for row in api(user, "GET", kind.url).json()["results"]]


def test_what_is_made_is_listed_with_its_state(
    api: Api, kind: Kind, make: Any, alice: Any, vera: Any
) -> None:
    assert listed(api, vera, kind) == []
    url = make(alice)
    assert [f"{kind.url}/{one}" for one in listed(api, vera, kind)] == [url]
    body = api(vera, "GET", url).json()
    assert (body["status"][kind.state], body["owner"]) == (kind.started, "alice")


def test_a_plan_says_what_would_happen_and_changes_nothing(
    api: Api, kind: Kind, alice: Any
) -> None:
    plan = api(alice, "POST", f"{kind.url}?plan=1", kind.least)
    assert plan.status_code == 200
    assert (plan.json()["action"], plan.json()["allowed"]) == ("create", True)
    assert listed(api, alice, kind) == []


def test_its_document_applied_again_changes_nothing_and_by_another_name_makes_another(
    api: Api, kind: Kind, make: Any, alice: Any
) -> None:
    url = make(alice)
    document = api(alice, "GET", f"{url}/{kind.document}").json()
    assert api(alice, "POST", f"{kind.apply}?plan=1", document).json()["action"] == "none"
    same = api(alice, "POST", kind.apply, document)
    assert (same.status_code, f"{kind.url}/{same.json()['id']}") == (202, url)
    document["metadata"]["name"] = "another"
    document["spec"] |= kind.change
    made = api(alice, "POST", kind.apply, document)
    assert made.status_code == 202, made.content
    assert len(listed(api, alice, kind)) == 2
    spec = api(alice, "GET", f"{kind.url}/{made.json()['id']}").json()["spec"]
    assert {name: spec[name] for name in kind.change} == kind.change


def test_a_document_with_an_unknown_field_is_refused_by_name(
    api: Api, kind: Kind, make: Any, alice: Any
) -> None:
    document = api(alice, "GET", f"{make(alice)}/{kind.document}").json()
    document["metadata"]["name"] = "another"
    document["spec"]["color"] = "red"
    answer = api(alice, "POST", kind.apply, document)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["spec.color"])
    assert len(listed(api, alice, kind)) == 1


def test_it_stops_starts_again_and_goes(
    api: Api, kind: Kind, make: Any, settle: Any, alice: Any
) -> None:
    url = make(alice)
    for verb, state in ((kind.stop, kind.stopped), (kind.start, kind.started)):
        assert api(alice, "POST", f"{url}/{verb}").status_code == 202
        settle()
        assert api(alice, "GET", url).json()["status"][kind.state] == state
    assert api(alice, "DELETE", url).status_code == 202
    settle()
    assert api(alice, "GET", url).status_code == 404
    assert listed(api, alice, kind) == []


def test_e13_the_same_request_twice_makes_one(api: Api, kind: Kind, alice: Any) -> None:
    first, again = (
        api(alice, "POST", kind.url, kind.least, idempotency_key="press") for _ in range(2)
    )
    assert first.json()["id"] == again.json()["id"]
    assert len(listed(api, alice, kind)) == 1


@pytest.mark.parametrize("error", ["unreachable", "not-yet"])
def test_c12_what_is_started_beside_a_driver_that_does_not_answer_keeps_its_reservation(
    error: str, api: Api, kind: Kind, make: Any, settle: Any, world: Any, alice: Any
) -> None:
    """A reservation belongs to one launch: that the one before has ended frees nothing of it."""
    from quotas.listeners import repair
    from quotas.models import Reservation

    def held() -> int:
        return Reservation.objects.count()

    url = make(alice)
    wanted = held()
    assert api(alice, "POST", f"{url}/{kind.stop}").status_code == 202
    settle()
    assert (held(), wanted > 0) == (0, True)
    world.driver_for("local").fail("*", error, times=-1)
    assert api(alice, "POST", f"{url}/{kind.start}").status_code == 202
    for _ in range(3):
        settle()
    repair()
    assert held() == wanted
    assert api(alice, "GET", url).json()["status"]["phase"] == "pending"
    world.driver_for("local").heal()
    settle(horizon_s=600)
    assert api(alice, "GET", url).json()["status"][kind.state] == kind.started
    assert held() == wanted


@pytest.mark.parametrize("who", ROLES)
def test_a1_each_role_may_what_its_rights_say(
    who: str, api: Api, kind: Kind, make: Any, request: pytest.FixtureRequest
) -> None:
    """Of work that is another member's; a stranger does not find it, nor what is not there."""
    from projects.access import ROLE_PERMISSIONS, Role

    url, person = make(request.getfixturevalue("alice")), request.getfixturevalue(who)
    rights = ROLE_PERMISSIONS[Role(ROLES[who])] if ROLES[who] else frozenset()
    asked = {
        ("GET", kind.url): "read",
        ("GET", url): "read",
        ("POST", f"{kind.url}?plan=1"): "create",
        ("POST", f"{url}/{kind.stop}"): "manage",
        ("DELETE", f"{url}?reason=its+turn"): "manage",
    }
    bodies = {f"{kind.url}?plan=1": kind.least, f"{url}/{kind.stop}": {"reason": "its turn"}}
    for (verb, path), right in asked.items():
        answer = api(person, verb, path, bodies.get(path))
        may = f"{kind.rights}:{right}" in rights
        wanted = {200, 202} if may else {403} if ROLES[who] else {404}
        assert answer.status_code in wanted, (verb, path, answer.status_code)


def test_who_ends_the_work_of_somebody_else_says_why_and_the_owner_is_told(
    api: Api, kind: Kind, make: Any, alice: Any, mona: Any
) -> None:
    from events.models import Event
    from notifications.models import Notification

    url = make(alice)

    def told() -> list[str]:
        rows = Notification.objects.filter(user=alice).order_by("id")
        return [str(row.params.get("reason", "")) for row in rows]

    before = len(told())
    for verb, path in (("POST", f"{url}/{kind.stop}"), ("DELETE", url)):
        refused = api(mona, verb, path)
        assert (refused.status_code, list(refused.json()["fields"])) == (400, ["reason"])
        assert "Alice" in refused.json()["detail"]
    assert len(told()) == before
    asked = {"reason": " the  node is\nrepaired "}
    assert api(mona, "POST", f"{url}/{kind.stop}", asked).status_code == 202
    assert api(mona, "DELETE", f"{url}?reason=it+was+empty").status_code == 202
    stopped, deleted = told()[before:]
    assert "the node is repaired" in stopped
    assert deleted == "it was empty"
    for said in ("the node is repaired", "it was empty"):
        assert Event.objects.filter(message=said, actor_name="mona").exists()
