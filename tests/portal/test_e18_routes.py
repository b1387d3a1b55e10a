"""E18: which acts go on while the portal's disk is full: settled by the names of routes."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import URLResolver, get_resolver

from portal.read_only import ENDS, NAMES
from tests.support import driving

EVERYTHING = 2**40  # MiB: more than any disk has
FULL = 507


@pytest.fixture
def volume(db: None, project: Any, bob: Any, principal: Any) -> Iterator[Any]:
    from clusters import registry
    from clusters.services import ensure_local_cluster
    from volumes.services import create

    registry.reset()
    ensure_local_cluster()
    wanted = create.NewVolume(name="set", size_mib=2048)
    row = create.volume_create(principal=principal(bob), project=project, wanted=wanted)
    driving.run_due()
    yield row
    registry.reset()


@pytest.fixture
def full(settings: Any) -> None:
    settings.BERTH_DISK_FLOOR_MIB = EVERYTHING


def names(resolver: Any, above: tuple[str, ...] = ()) -> Iterator[str]:
    for part in resolver.url_patterns:
        if isinstance(part, URLResolver):
            yield from names(part, (*above, part.namespace) if part.namespace else above)
        elif part.name:
            yield ":".join((*above, part.name))


def test_all_that_is_named_are_routes() -> None:
    found = set(names(get_resolver()))
    assert found >= NAMES
    assert {name.rpartition(":")[2].rpartition("-")[2] for name in found} >= ENDS


@pytest.mark.parametrize("end", ["files", "purge"])
def test_looking_into_a_volume_and_removing_it_work_by_the_api(
    end: str, volume: Any, full: None, mona: Any, as_user: Any
) -> None:
    base = f"/api/v1/projects/vision/volumes/{volume.uid}"
    why = {"reason": "full"} if end == "purge" else {}
    answer = as_user(mona).post(f"{base}/{end}", why, content_type="application/json")
    assert answer.status_code == 202


@pytest.mark.parametrize(
    ("end", "status"), [("files/session", 202), ("purge/", 302), ("transfer/withdraw/", 302)]
)
def test_and_by_the_pages(
    end: str, status: int, volume: Any, full: None, mona: Any, as_user: Any
) -> None:
    path = f"/projects/vision/volumes/{volume.uid}/{end}"
    assert as_user(mona).post(path, {"confirm": "set", "reason": "full"}).status_code == status
    volume.refresh_from_db()
    assert (volume.desired == "absent") is (end == "purge/")


def test_people_are_kept_out(full: None, bob: Any, mona: Any, operator: Any, as_user: Any) -> None:
    op = as_user(operator)
    out = {"sessions": {}, "role": {"platform_role": ""}, "state": {"confirm": bob.username}}
    for act, said in out.items():
        assert op.post(f"/console/users/{bob.uid}/{act}", said).status_code == 302, act
    answer = op.patch(
        f"/api/v1/users/{mona.uid}", {"is_active": False}, content_type="application/json"
    )
    assert answer.status_code == 200, answer.content
    for person in (bob, mona):
        person.refresh_from_db()
        assert not person.is_active


def test_a_terminal_signs_in(full: None, alice: Any, as_user: Any) -> None:
    begun = Client().post("/api/v1/auth/device", {}, content_type="application/json")
    assert begun.status_code in {200, 201}, begun.content
    code = begun.json()["user_code"]
    answer = as_user(alice).post(
        "/settings/device/answer", {"code": code, "answer": "approve", "days": 30}
    )
    assert answer.status_code == 200
    token = Client().post(
        "/api/v1/auth/device/token",
        {"device_code": begun.json()["device_code"]},
        content_type="application/json",
    )
    assert token.status_code in {200, 201}, token.content


@pytest.mark.parametrize("slug", ["delete", "stop", "purge"])
def test_a_name_that_somebody_chose_opens_nothing(
    slug: str, project: Any, alice: Any, as_user: Any, settings: Any
) -> None:
    type(project).objects.filter(pk=project.pk).update(slug=slug)
    settings.BERTH_DISK_FLOOR_MIB = EVERYTHING
    path = f"/api/v1/projects/{slug}"
    answer = as_user(alice).patch(path, {"name": "New"}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (FULL, "disk-full")


def test_strangers_are_asked_who_they_are_first(project: Any, full: None) -> None:
    path = "/api/v1/projects/vision/workspaces"
    body: dict[str, str] = {"name": "new"}
    stranger = Client().post(path, body, content_type="application/json")
    assert stranger.status_code == 401
    false = {"Authorization": "Bearer berth_nothing"}
    stranger = Client().post(path, body, content_type="application/json", headers=false)
    assert stranger.status_code == 401
    page = Client().post("/projects/vision/workspaces/launch/", body)
    assert page.status_code == 302


def test_a_token_is_told_of_the_full_disk(
    project: Any, full: None, alice: Any, principal: Any
) -> None:
    from accounts.services.tokens import token_create

    _row, secret = token_create(who=principal(alice), name="t")
    answer = Client().post(
        "/api/v1/projects/vision/workspaces",
        {"name": "new"},
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )
    assert (answer.status_code, answer.json()["code"]) == (FULL, "disk-full")
