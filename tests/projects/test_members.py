"""Who belongs to a project: A6 and the rules around it."""

from typing import Any

import pytest

from events.models import Event
from notifications.models import Notification
from projects import hooks
from projects.models import GroupRole, Membership
from projects.services.members import groups_sync

pytestmark = pytest.mark.django_db
URL = "/api/v1/projects/vision/members"


def call(client: Any, verb: str, url: str, body: Any = None) -> Any:
    return getattr(client, verb)(url, body or {}, content_type="application/json")


def roles(project: Any) -> dict[str, str]:
    rows = Membership.objects.filter(project=project).select_related("user")
    return {m.user.username: m.role for m in rows}


def test_a_manager_adds_a_member_who_is_told(
    project: Any, mona: Any, charlie: Any, as_user: Any
) -> None:
    response = call(as_user(mona), "post", URL, {"username": "charlie", "role": "member"})
    assert response.status_code == 201
    assert roles(project)["charlie"] == "member"
    assert as_user(charlie).get("/api/v1/projects/vision").status_code == 200
    assert Notification.objects.get(user=charlie).kind == "project.added"
    again = call(as_user(mona), "post", URL, {"username": "charlie"})
    assert (again.status_code, again.json()["code"]) == (409, "already-member")


def test_a_disabled_or_unknown_person_is_not_added(
    project: Any, mona: Any, charlie: Any, as_user: Any
) -> None:
    charlie.is_active = False
    charlie.save()
    for name in ("charlie", "nobody", ""):
        assert call(as_user(mona), "post", URL, {"username": name}).status_code in {400, 404}


def test_a6_nobody_grants_above_the_own_role(
    project: Any, mona: Any, charlie: Any, as_user: Any
) -> None:
    client = as_user(mona)
    before = roles(project)
    assert call(client, "post", URL, {"username": "charlie", "role": "owner"}).status_code == 403
    assert call(client, "patch", f"{URL}/bob", {"role": "owner"}).status_code == 403
    assert roles(project) == before
    assert call(client, "patch", f"{URL}/bob", {"role": "manager"}).status_code == 200


def test_a6_nobody_touches_somebody_above(project: Any, mona: Any, as_user: Any) -> None:
    client = as_user(mona)
    assert call(client, "patch", f"{URL}/alice", {"role": "viewer"}).status_code == 403
    assert call(client, "delete", f"{URL}/alice").status_code == 403
    assert roles(project)["alice"] == "owner"


def test_a6_nobody_changes_the_own_role(project: Any, alice: Any, mona: Any, as_user: Any) -> None:
    for who, role in ((alice, "viewer"), (mona, "owner"), (mona, "member")):
        response = call(as_user(who), "patch", f"{URL}/{who.username}", {"role": role})
        assert response.status_code == 403


def test_a6_the_last_owner_neither_goes_nor_is_demoted(
    project: Any, alice: Any, operator: Any, as_user: Any
) -> None:
    leaving = call(as_user(alice), "delete", f"{URL}/alice")
    assert (leaving.status_code, leaving.json()["code"]) == (409, "last-owner")
    demoted = call(as_user(operator), "patch", f"{URL}/alice", {"role": "member"})
    assert demoted.status_code == 409
    assert call(as_user(operator), "delete", f"{URL}/alice").status_code == 409
    assert roles(project)["alice"] == "owner"


def test_a6_a_disabled_owner_does_not_count_as_another_owner(
    project: Any, alice: Any, mona: Any, as_user: Any
) -> None:
    Membership.objects.filter(user=mona).update(role="owner")
    mona.is_active = False
    mona.save()
    assert call(as_user(alice), "delete", f"{URL}/alice").status_code == 409


def test_every_member_may_leave_and_nobody_else_is_removed_by_it(
    project: Any, vera: Any, bob: Any, as_user: Any
) -> None:
    assert call(as_user(vera), "delete", f"{URL}/bob").status_code == 403
    assert call(as_user(vera), "delete", f"{URL}/vera").status_code == 204
    assert set(roles(project)) == {"alice", "bob", "mona"}
    assert as_user(vera).get("/api/v1/projects/vision").status_code == 404


def test_a3_a_removed_member_is_a_stranger_with_the_next_request(
    project: Any, alice: Any, bob: Any, as_user: Any, monkeypatch: Any
) -> None:
    told: list[str] = []
    monkeypatch.setattr(hooks.member_left, "_callbacks", [lambda p, u, w: told.append(u.username)])
    client = as_user(bob)
    assert client.get("/api/v1/projects/vision").status_code == 200
    assert call(as_user(alice), "delete", f"{URL}/bob").status_code == 204
    assert client.get("/api/v1/projects/vision").status_code == 404
    assert told == ["bob"]


def test_a_demotion_is_effective_with_the_next_request(
    project: Any, alice: Any, mona: Any, as_user: Any
) -> None:
    client = as_user(mona)
    assert call(client, "patch", "/api/v1/projects/vision", {"name": "One"}).status_code == 200
    call(as_user(alice), "patch", f"{URL}/mona", {"role": "viewer"})
    assert call(client, "patch", "/api/v1/projects/vision", {"name": "Two"}).status_code == 403


def test_an_operator_acts_in_a_project_without_being_a_member(
    project: Any, operator: Any, charlie: Any, as_user: Any
) -> None:
    response = call(as_user(operator), "post", URL, {"username": "charlie", "role": "owner"})
    assert response.status_code == 201


def test_groups_give_change_and_take_roles(project: Any, charlie: Any) -> None:
    GroupRole.objects.create(group="ml", project=project, role="member")
    GroupRole.objects.create(group="ml-leads", project=project, role="manager")
    groups_sync(charlie, ["ml", "unknown"])
    assert roles(project)["charlie"] == "member"
    groups_sync(charlie, ["ml", "ml-leads"])
    assert roles(project)["charlie"] == "manager"
    groups_sync(charlie, [])
    assert "charlie" not in roles(project)


def test_groups_leave_alone_what_was_given_by_hand(project: Any, bob: Any) -> None:
    GroupRole.objects.create(group="ml", project=project, role="viewer")
    groups_sync(bob, ["ml"])
    groups_sync(bob, [])
    assert roles(project)["bob"] == "member"


def test_a_membership_from_a_group_is_not_edited_by_hand(
    project: Any, alice: Any, charlie: Any, as_user: Any
) -> None:
    GroupRole.objects.create(group="ml", project=project, role="member")
    groups_sync(charlie, ["ml"])
    client = as_user(alice)
    assert call(client, "patch", f"{URL}/charlie", {"role": "viewer"}).status_code == 409
    assert call(client, "delete", f"{URL}/charlie").status_code == 409


def test_groups_never_leave_a_project_without_an_owner(project: Any, alice: Any) -> None:
    Membership.objects.filter(user=alice).update(from_group="leads")
    groups_sync(alice, [])
    assert roles(project)["alice"] == "owner"
    assert Event.objects.filter(verb="member.removed", outcome="denied").exists()


def test_a_group_gives_and_takes_the_platform_role(charlie: Any, operator: Any) -> None:
    GroupRole.objects.create(group="ops", platform_role="operator")
    groups_sync(charlie, ["ops"])
    charlie.refresh_from_db()
    assert charlie.is_operator
    groups_sync(charlie, [])
    charlie.refresh_from_db()
    assert not charlie.is_operator
