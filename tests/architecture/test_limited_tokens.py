"""What a token that may do less than its person opens: a list, asked of every route of the API.

Everything that is not on it is refused with a sentence, and changes nothing.
"""

from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from accounts.principal import ACCOUNT_MANAGE, ACCOUNT_READ, Principal, known_scopes
from accounts.services.tokens import token_create
from common.drf.views import ANY_TOKEN
from projects.models import Membership, Project
from tests.architecture import world
from tests.architecture.routes import Route, every_route

# All that a token limited to projects opens outside of them: who it speaks for, which projects it
# reaches, and lists that say nothing of anybody.
OPEN_TO_EVERY_TOKEN = {
    "GET /api/v1/^me",
    "GET /api/v1/^projects",
    "GET /api/v1/^presets",
    "GET /api/v1/^clusters",
    "GET /api/v1/^flavors",
    "GET /api/v1/^announcements",
}
ACCOUNT = {ACCOUNT_READ, ACCOUNT_MANAGE}


def api_routes(*, in_project: bool) -> list[tuple[Route, str]]:
    return [
        (route, verb)
        for route in every_route()
        if route.is_api and route.in_project is in_project
        for verb in route.verbs
    ]


def opened_by(route: Route, verb: str) -> str:
    view: Any = route.view
    return str(view.limited_tokens.get(verb, ""))


def test_what_every_token_opens_is_this_list() -> None:
    found = {
        f"{verb} {route.path}"
        for route, verb in api_routes(in_project=False)
        if opened_by(route, verb) == ANY_TOKEN
    }
    assert found == OPEN_TO_EVERY_TOKEN


def test_what_a_route_names_is_a_scope_that_tokens_can_have() -> None:
    for route, verb in api_routes(in_project=False):
        assert opened_by(route, verb) in {"", ANY_TOKEN, *known_scopes()}, f"{verb} {route.path}"


@pytest.fixture
def ids(project: Any, alice: Any) -> dict[str, str]:
    return world.build(project, alice)


def client_of(user: Any, **limits: Any) -> Client:
    secret = token_create(who=Principal(user=user), name="limited", **limits)[1]
    return Client(raise_request_exception=False, headers={"Authorization": f"Bearer {secret}"})


def ask(client: Client, verb: str, url: str) -> Any:
    return client.generic(verb, url, "{}", content_type="application/json")


def refused(client: Client, ids: dict[str, str], open_to_it: Any) -> list[str]:
    """Ask every route outside projects; return where the answer is not what the list says."""
    wrong = []
    for route, verb in api_routes(in_project=False):
        url = world.address(route, ids)
        with transaction.atomic():
            answer = ask(client, verb, url)
            if open_to_it(route, verb):
                transaction.set_rollback(True)  # what it may do is not what this asks
        was_refused = answer.status_code == 403 and bool(answer.json()["detail"])
        if was_refused is open_to_it(route, verb) or answer.status_code >= 500:
            wrong.append(f"{verb} {url}: {answer.status_code} {answer.content[:200]!r}")
    return wrong


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["alice", "operator"])
@pytest.mark.parametrize("some", [[], ["account:manage", "account:read", "platform:operate"]])
def test_a7_a_token_limited_to_projects_opens_nothing_of_the_person_or_the_platform(
    request: Any, name: str, some: list[str], ids: dict[str, str], project: Any
) -> None:
    client = client_of(request.getfixturevalue(name), project_uids=[str(project.uid)], scopes=some)
    before = world.snapshot()
    wrong = refused(client, ids, lambda route, verb: opened_by(route, verb) == ANY_TOKEN)
    assert not wrong, "\n".join(wrong)
    after = world.snapshot()
    changed = {table for table in before if before[table] != after[table]}
    assert changed <= {"accounts.ApiToken"}  # when the token was last used


@pytest.mark.django_db
def test_a7_a_token_limited_to_scopes_opens_what_they_name(
    operator: Any, ids: dict[str, str]
) -> None:
    for held in ("workspace:read", ACCOUNT_READ, ACCOUNT_MANAGE):
        client = client_of(operator, scopes=[held])
        wrong = refused(
            client,
            ids,
            lambda route, verb, held=held: (
                opened_by(route, verb) == ANY_TOKEN
                or (route.demand(verb) == "user" and opened_by(route, verb) == held)
            ),
        )
        assert not wrong, f"{held}: " + "\n".join(wrong)


@pytest.mark.django_db
def test_a7_a_token_that_only_reads_writes_nowhere(operator: Any, ids: dict[str, str]) -> None:
    client = client_of(operator, read_only=True)
    wrong = [
        f"{verb} {route.path}"
        for in_project in (False, True)
        for route, verb in api_routes(in_project=in_project)
        if verb != "GET"
        and "POST" not in getattr(route.view, "reading_methods", ())
        and ask(client, verb, world.address(route, ids)).status_code != 403
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db
def test_a7_a_token_limited_to_a_project_finds_no_other(alice: Any, ids: dict[str, str]) -> None:
    """Not even one of the same person: it is asked for each route below a project."""
    other = Project.objects.create(slug="other", name="Other", phase="running")
    Membership.objects.create(project=other, user=alice, role="owner")
    client = client_of(alice, project_uids=[str(other.uid)])
    wrong = []
    for route, verb in api_routes(in_project=True):
        answer = ask(client, verb, world.address(route, ids))
        if answer.status_code != 404:
            wrong.append(f"{verb} {route.path}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)
    found = client.get("/api/v1/projects").json()["results"]
    assert [row["slug"] for row in found] == ["other"]
