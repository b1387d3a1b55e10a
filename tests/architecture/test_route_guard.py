"""A1 for every route there is: declared, and refused to everybody whom the table refuses.

The matrix role, route and verb is made from the URL configuration and the permission table;
a new route is in it without a line here, or fails the guard.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from django.db import transaction

from events.models import Event
from projects.access import (
    AUDITOR_PERMISSIONS,
    OPERATOR_PERMISSIONS,
    ROLE_PERMISSIONS,
    Permission,
)
from projects.choices import Role
from tests.architecture import declared, world
from tests.architecture.routes import VERBS, Route, every_route

ROLES = ("viewer", "member", "manager", "owner", "operator", "auditor")
PERSON = {
    "viewer": "vera",
    "member": "bob",
    "manager": "mona",
    "owner": "alice",
    "operator": "operator",
    "auditor": "auditor",
    "stranger": "charlie",
}


@cache
def routes() -> tuple[Route, ...]:
    return tuple(every_route())


def may(role: str, demand: Permission) -> bool:
    if role == "operator":
        return demand in OPERATOR_PERMISSIONS
    if role == "auditor":
        return demand in AUDITOR_PERMISSIONS
    return role != "stranger" and demand in ROLE_PERMISSIONS[Role(role)]


def may_platform(role: str, demand: str) -> bool:
    allowed = {"user": True, "auditor": role in {"auditor", "operator"}}
    return allowed.get(demand, role == "operator")


def spell(route: Route) -> str:
    return f"{route.path} ({route.view or route.callback})"


# --- declared ---------------------------------------------------------------------------------


def test_every_route_with_a_project_uses_the_base_classes() -> None:
    wrong = [spell(r) for r in routes() if "project" in r.params and not r.in_project]
    assert not wrong, "\n".join(wrong)


def test_every_verb_that_has_a_handler_is_declared() -> None:
    wrong = [
        f"{verb} {spell(r)}"
        for r in routes()
        if r.is_ours
        for verb in r.verbs
        if r.demand(verb) is None
    ]
    assert not wrong, "\n".join(wrong)


def test_what_is_declared_exists_and_is_a_known_word() -> None:
    for route in routes():
        for verb in VERBS:
            demand = route.demand(verb) if route.is_ours else None
            if demand is None:
                continue
            if route.in_project:
                assert isinstance(demand, Permission), f"{verb} {spell(route)}: {demand!r}"
            else:
                assert demand in {"user", "auditor", "operator"}, f"{verb} {spell(route)}"


def listed(route: Route) -> bool:
    if route.path in {*declared.OPERATIONS, *declared.PUBLIC, *declared.SIGNED_IN}:
        return True
    if route.path.startswith(declared.HUB_PREFIXES):
        return True
    module = str(getattr(route.view or route.callback, "__module__", ""))
    if module.startswith(declared.LIBRARY):
        return True
    return route.path.startswith(declared.LIBRARY_REDIRECTS)


def test_every_other_route_is_on_the_list() -> None:
    wrong = [spell(r) for r in routes() if not r.is_ours and not listed(r)]
    assert not wrong, "routes that nothing guards:\n" + "\n".join(wrong)


def test_the_list_names_no_route_that_is_gone_or_guarded_meanwhile() -> None:
    there = {r.path for r in routes() if not r.is_ours}
    named = {*declared.OPERATIONS, *declared.PUBLIC, *declared.SIGNED_IN}
    assert named <= there, sorted(named - there)


def test_an_undeclared_route_fails_the_guard() -> None:
    class Stranger:
        """A view that somebody mounted past the base classes."""

        def get(self) -> None: ...

    def view() -> None: ...

    view.view_class = Stranger  # type: ignore[attr-defined]
    route = Route("/^projects/<slug:project>/secret", "secret", view, ("project",))
    assert not route.is_ours
    assert not listed(route)


# --- asked ------------------------------------------------------------------------------------


@pytest.fixture
def people(request: Any, project: Any) -> dict[str, Any]:
    return {role: request.getfixturevalue(name) for role, name in PERSON.items()}


@pytest.fixture
def ids(project: Any, people: dict[str, Any]) -> dict[str, str]:
    return world.build(project, people["owner"])


@pytest.fixture
def clients(people: dict[str, Any], as_user: Any) -> dict[str, Any]:
    made = {role: as_user(person) for role, person in people.items()}
    for client in made.values():
        client.raise_request_exception = False
        client.get("/livez")
    return made


def ask(client: Any, verb: str, route: Route, url: str, body: Any = None) -> Any:
    if verb == "GET":
        return client.get(url)
    if route.is_api:
        return client.generic(verb, url, body or "{}", content_type="application/json")
    return client.post(url, body or {})


@pytest.fixture(params=["some", pytest.param("others", marks=pytest.mark.slow)])
def part(request: Any) -> Callable[[list[Any]], list[Any]]:
    """To ask all takes seconds each time: `make check` asks every fourth, `make test` the rest too."""
    is_some = request.param == "some"
    return lambda every: [one for n, one in enumerate(every) if (n % 4 == 0) is is_some]


def in_project() -> list[tuple[Route, str, Permission]]:
    return [(r, v, r.demand(v)) for r in routes() if r.in_project for v in r.verbs]


def on_platform() -> list[tuple[Route, str, str]]:
    return [(r, v, r.demand(v)) for r in routes() if r.on_platform for v in r.verbs]


@pytest.mark.django_db
def test_a1_a_stranger_gets_the_same_404_everywhere_and_changes_nothing(
    clients: dict[str, Any], ids: dict[str, str]
) -> None:
    before = world.snapshot()
    wrong = []
    for route, verb, _demand in in_project():
        url = world.address(route, ids)
        foreign = ask(clients["stranger"], verb, route, url)
        unknown = ask(
            clients["stranger"],
            verb,
            route,
            world.address(route, {**ids, "project": "no-such-project"}),
        )
        if (foreign.status_code, unknown.status_code) != (404, 404):
            wrong.append(f"{verb} {url}: {foreign.status_code}, unknown {unknown.status_code}")
        elif route.is_api and foreign.json() != unknown.json():
            wrong.append(f"{verb} {url}: another body than for what does not exist")
    assert not wrong, "\n".join(wrong)
    assert world.snapshot() == before
    assert Event.objects.filter(outcome="denied", actor_name="charlie").exists()


@pytest.mark.django_db
def test_a1_a_member_without_the_right_gets_403_and_changes_nothing(
    part: Callable[[list[Any]], list[Any]], clients: dict[str, Any], ids: dict[str, str]
) -> None:
    before = world.snapshot()
    wrong = []
    for route, verb, demand in part(in_project()):
        url = world.address(route, ids)
        for role in ROLES:
            if may(role, demand):
                continue
            answer = ask(clients[role], verb, route, url)
            if answer.status_code != 403:
                wrong.append(f"{role} {verb} {url}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)
    assert world.snapshot() == before


@pytest.mark.django_db
@pytest.mark.parametrize("is_asked_by", ["one", pytest.param("more", marks=pytest.mark.slow)])
def test_a1_whoever_has_the_right_gets_in_and_nothing_breaks(
    is_asked_by: str, clients: dict[str, Any], ids: dict[str, str]
) -> None:
    """Pages and lists by the owner, who sees the most; else by the least who may. Then by more."""
    wrong = []
    for route, verb, demand in in_project():
        url = world.address(route, ids)
        allowed = [r for r in ROLES if may(r, demand)]
        one = "owner" if verb == "GET" else allowed[0]
        others = {allowed[0], "owner", allowed[-1]} - {one}
        for role in {one} if is_asked_by == "one" else others:
            with transaction.atomic():
                answer = ask(clients[role], verb, route, url)
                transaction.set_rollback(True)
            # an empty body may be refused, a finer rule may say 403, but the door is open
            if (
                answer.status_code >= 500
                or answer.status_code in {401, 405}
                or (verb == "GET" and role == "owner" and answer.status_code not in {200, 302})
            ):
                wrong.append(f"{role} {verb} {url}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db
def test_a1_foreign_ids_below_ones_own_project_are_not_found(
    part: Callable[[list[Any]], list[Any]],
    clients: dict[str, Any],
    ids: dict[str, str],
    people: dict[str, Any],
) -> None:
    from projects.models import Membership, Project

    own = Project.objects.create(slug="mine", name="Mine", phase="running")
    Membership.objects.create(project=own, user=people["stranger"], role="owner")
    before = world.snapshot()
    wrong = []
    for route, verb, _demand in part(in_project()):
        if len(route.params) == 1:
            continue
        url = world.address(route, {**ids, "project": "mine"})
        answer = ask(clients["stranger"], verb, route, url)
        expected = {404} if verb in {"GET", "DELETE"} else {400, 404, 409, 422}
        if answer.status_code not in expected:
            wrong.append(f"{verb} {url}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)
    assert world.snapshot() == before


@pytest.mark.django_db
def test_visitors_are_sent_to_the_sign_in_or_refused(
    part: Callable[[list[Any]], list[Any]], client: Any, ids: dict[str, str]
) -> None:
    client.raise_request_exception = False
    before = world.snapshot()
    wrong = []
    for route in part(list(routes())):
        if not route.is_ours:
            continue
        for verb in route.verbs:
            url = world.address(route, ids)
            answer = ask(client, verb, route, url)
            good = {401, 403} if route.is_api else {302}
            if answer.status_code not in good:
                wrong.append(f"{verb} {url}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)
    assert world.snapshot() == before


@pytest.mark.django_db
def test_platform_routes_hold_to_their_role(
    part: Callable[[list[Any]], list[Any]], clients: dict[str, Any], ids: dict[str, str]
) -> None:
    before = world.snapshot()
    wrong = []
    for route, verb, demand in part(on_platform()):
        url = world.address(route, ids)
        for role in ("member", "auditor"):
            if not may_platform(role, demand):
                answer = ask(clients[role], verb, route, url)
                if answer.status_code != 403:
                    wrong.append(f"{role} {verb} {url}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)
    assert world.snapshot() == before
    for route, verb, demand in part(on_platform()):
        role = next(r for r in ("member", "auditor", "operator") if may_platform(r, demand))
        url = world.address(route, ids)
        with transaction.atomic():
            answer = ask(clients[role], verb, route, url)
            transaction.set_rollback(True)
        if answer.status_code >= 500 or answer.status_code in {401, 405}:
            wrong.append(f"{role} {verb} {url}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db
def test_verbs_without_a_declaration_are_refused(
    part: Callable[[list[Any]], list[Any]], clients: dict[str, Any], ids: dict[str, str]
) -> None:
    wrong = []
    for route in part(list(routes())):
        if not route.is_ours:
            continue
        url = world.address(route, ids)
        for verb in (*VERBS, "OPTIONS"):
            if verb in route.verbs or (not route.is_api and verb != "POST"):
                continue
            answer = clients["owner"].generic(verb, url, "{}", content_type="application/json")
            if answer.status_code != 405:
                wrong.append(f"{verb} {url}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db
def test_listed_routes_never_break_for_visitors_and_members(
    part: Callable[[list[Any]], list[Any]],
    client: Any,
    clients: dict[str, Any],
    ids: dict[str, str],
) -> None:
    client.raise_request_exception = False
    wrong = []
    for route in part(list(routes())):
        if route.is_ours or "(?P" in route.path or route.path == "/events/stream":
            continue
        url = world.address(route, ids)
        if url.startswith(("/readyz", "/hub/api/oauth2/authorize")):
            continue  # their own tests say what they answer where a part is missing
        for who in (client, clients["member"]):
            answer = who.get(url)
            if answer.status_code >= 500:
                wrong.append(f"GET {url}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)
