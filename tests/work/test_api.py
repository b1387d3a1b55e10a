"""The API of every kind that is made from its table: who may what, what is told, what is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator

from tests.work.conftest import LEAST, SIZED
from work.fields import Edit

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.work.tiny.urls")]
# Loads tell themselves in a shape of their own, at addresses of their own: tests/loaders/test_api.
sized = pytest.mark.parametrize("kind", SIZED, indirect=True)
PROJECT = "/api/v1/projects/vision"
SECRET = "sesame-opens"
PEOPLE = {
    "alice": "read change end",
    "mona": "read end create",
    "bob": "read create",
    "vera": "read",
    "operator": "read end",
    "auditor": "read",
}


@pytest.fixture
def base(kind: Any) -> str:
    return f"{PROJECT}/{kind.word}s"


@pytest.fixture
def stop(kind: Any) -> str:
    return "cancel" if kind.once else "stop"


@pytest.fixture
def document(kind: Any, base: str) -> Callable[[Any], str]:
    """Return where the YAML of a row is, as JSON."""
    word = "manifest" if kind.word == "workspace" else "document"
    return lambda row: f"{base}/{row.short_id}/{word}"


@pytest.fixture
def routes(
    base: str, stop: str, document: Callable[[Any], str]
) -> Callable[[Any], dict[tuple[str, str], str]]:
    """Return verb and address of each route, and what one needs for it."""

    def of(row: Any) -> dict[tuple[str, str], str]:
        one = f"{base}/{row.short_id}"
        return {
            ("GET", base): "read",
            ("GET", one): "read",
            ("GET", document(row)): "read",
            ("GET", f"{one}/events"): "read",
            ("GET", f"{one}/logs"): "own",
            ("POST", f"{base}?plan=1"): "create",
            ("PATCH", f"{one}?plan=1"): "change",
            ("PATCH", one): "change",
            ("POST", f"{one}/{stop}"): "end",
            ("POST", f"{one}/start"): "change",
            ("DELETE", f"{one}?reason=its+turn"): "end",
        }

    return of


@sized
@pytest.mark.parametrize("who", [*PEOPLE, "charlie"])
def test_a1_each_route_is_open_to_whom_its_kind_says(
    who: str, api: Any, make: Any, kind: Any, routes: Any, alice: Any, request: Any
) -> None:
    """Of alice's: others see that there is one and what it does, a stranger does not find it."""
    rights = {*PEOPLE.get(who, "").split()} | ({"own", "create"} if who == "alice" else set())
    for (verb, path), needed in routes(make(alice)).items():
        body = dict(LEAST[kind.word]) if "plan" in path and verb == "POST" else {}
        body |= {"name": "new"} if verb == "PATCH" else {}
        body |= {"reason": "its turn"} if needed == "end" and verb == "POST" else {}
        answer = api(request.getfixturevalue(who), verb, path, body if verb != "GET" else None)
        wanted = {404} if who == "charlie" else {200, 202} if needed in rights else {403}
        assert answer.status_code in wanted, (verb, path, answer.status_code, answer.content)


@sized
def test_what_is_made_is_told_in_one_shape(
    api: Any, kind: Any, base: str, alice: Any, project: Any, settle: Any
) -> None:
    made = api(alice, "POST", base, {**LEAST[kind.word], "name": "mine", "cpu_milli": 1500})
    assert made.status_code == 202, made.content
    one = made["Location"]
    assert one == f"{base}/{made.json()['id']}"
    settle()
    told, listed = api(alice, "GET", one).json(), api(alice, "GET", base).json()["results"]
    assert (told["name"], told["owner"], told["spec"]["cpu_milli"]) == ("mine", "alice", 1500)
    assert (told["status"]["state"], told["status"]["phase"]) == ("running", "running")
    assert set(told["spec"]) >= {field.name for field in kind.table} - {"name"}
    assert [set(one) for one in listed] == [set(told)]
    for name in kind.attachments:
        assert isinstance(told["spec"][name], list)
        assert listed[0]["spec"][name] is None
    assert api(alice, "GET", one)["ETag"]
    assert api(alice, "PATCH", one, {"name": "new"}, if_match='"other-1"').status_code == 412


@sized
def test_what_its_table_calls_private_is_null_for_others_and_in_lists(
    api: Any, make: Any, kind: Any, base: str, document: Any, alice: Any, mona: Any
) -> None:
    row = make(alice, env={"KEY": SECRET})
    private = [field.name for field in kind.table if field.private]
    assert "env" in private
    one = f"{base}/{row.short_id}"
    assert api(alice, "GET", one).json()["spec"]["env"] == {"KEY": SECRET}
    for user, path in ((mona, one), (mona, base), (alice, base), (mona, document(row))):
        answer = api(user, "GET", path)
        assert answer.status_code == 200
        assert SECRET not in answer.content.decode()
    told = api(mona, "GET", one).json()["spec"]
    assert {told[name] for name in private} == {None}


@sized
def test_its_variables_are_null_where_their_key_is_lost_and_it_can_be_deleted(
    api: Any, make: Any, base: str, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from common.errors import Unavailable
    from work.fields import Environment

    def lost(_self: Any, _row: Any) -> Any:
        raise Unavailable("its key is lost")

    one = f"{base}/{make(alice, env={'KEY': SECRET}).short_id}"
    monkeypatch.setattr(Environment, "read", lost)
    assert api(alice, "GET", one).json()["spec"]["env"] is None
    assert api(alice, "DELETE", one).status_code == 202


def test_each_field_is_taken_or_refused_by_its_name(
    api: Any, kind: Any, base: str, alice: Any, project: Any
) -> None:
    for field in kind.table:
        answer = api(alice, "POST", base, {**LEAST[kind.word], field.name: {"no": ["such"]}})
        assert (answer.status_code, list(answer.json()["fields"])) == (400, [field.name])
    answer = api(alice, "POST", base, {**LEAST[kind.word], "colour": "red"})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["colour"])
    assert api(alice, "GET", base).json()["results"] == []


@sized
def test_its_document_makes_the_same_again(
    api: Any, make: Any, kind: Any, base: str, document: Any, alice: Any
) -> None:
    row = make(alice, name="mine")
    told = api(alice, "GET", document(row)).json()
    assert (told["kind"], told["metadata"]["name"]) == (kind.document, "mine")
    same = api(alice, "POST", f"{base}/apply?plan=1", told).json()
    assert (same["action"], same["changes"]) == ("none", [])
    told["metadata"]["name"] = "another"
    made = api(alice, "POST", f"{base}/apply", told)
    assert made.status_code == 202, made.content
    assert [one["name"] for one in api(alice, "GET", base).json()["results"]] == ["another", "mine"]


@sized
def test_a_typed_name_is_compared_and_a_program_needs_none(
    api: Any, make: Any, base: str, alice: Any
) -> None:
    one = f"{base}/{make(alice, name='mine').short_id}"
    assert api(alice, "DELETE", f"{one}?name=mien").status_code == 400
    assert api(alice, "DELETE", one).status_code == 202


def test_the_same_request_twice_makes_one(
    api: Any, kind: Any, base: str, alice: Any, project: Any
) -> None:
    asked = (api(alice, "POST", base, LEAST[kind.word], idempotency_key="press") for _ in range(2))
    assert len({answer.json()["id"] for answer in asked}) == 1


@sized
def test_every_route_is_described_with_the_fields_of_the_table(kind: Any, stop: str) -> None:
    from tests.work.tiny import urls

    found = SchemaGenerator(patterns=urls.urlpatterns).get_schema(public=True)
    one = f"/api/v1/projects/{{project}}/{kind.word}s/{{{kind.word}}}"
    document = "/manifest" if kind.word == "workspace" else "/document"
    for end in ("", "/start", f"/{stop}", document, "/events", "/logs"):
        assert f"{one}{end}" in found["paths"]
    shapes = found["components"]["schemas"]
    title = kind.word.capitalize()
    taken = {field.name for field in kind.table} | {*kind.beside}
    assert set(shapes[f"{title}InRequest"]["properties"]) == taken
    edit = set(shapes[f"Patched{title}EditRequest"]["properties"])
    changes = {field.name for field in kind.table if field.edit is not Edit.NEVER}
    assert edit == changes | ({"newest_image"} if kind.renews else set())
    spec = set(shapes[f"{title}SpecOut"]["properties"])
    assert spec >= {field.name for field in kind.table} - {"name"}
