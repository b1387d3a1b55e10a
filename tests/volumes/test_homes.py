"""Homes: one for each person in a project; measured, private, the last to go."""

import pytest

from tests.support import driving
from volumes.models import Volume
from volumes.services import create, removal

API = "/api/v1/projects/vision/volumes"


@pytest.fixture(autouse=True)
def world(db):
    from clusters import registry

    registry.reset()
    yield
    registry.reset()


@pytest.fixture
def home(project, alice, principal):
    return create.home_ensure(principal=principal(alice), project=project, owner=alice)


def test_a_home_is_made_once(home, project, alice, principal):
    again = create.home_ensure(principal=principal(alice), project=project, owner=alice)
    assert again.pk == home.pk
    assert Volume.objects.count() == 1


def test_its_size_is_unknown_until_it_was_measured(home, as_user, vera):
    from clusters.registry import driver_for

    client = as_user(vera)
    assert client.get(API).json()["results"][0]["used_bytes"] is None
    assert "not measured yet" in client.get("/projects/vision/volumes/").content.decode()
    driving.run_due()
    home.refresh_from_db()
    assert (home.phase, home.used_bytes) == ("running", 0)
    assert driver_for("local").calls("ensure_volume") >= 1


def test_a_machine_that_does_not_answer_changes_nothing_known(home):
    from clusters.registry import driver_for

    driving.run_due()
    driver_for("local").fail("ensure_volume", "unreachable", times=-1)
    driving.run_due(horizon_s=3600, rounds=2)
    home.refresh_from_db()
    assert home.phase == "running"
    assert home.failures > 0


def test_a_volume_that_is_there_stays_so_while_the_cluster_refuses(home):
    from clusters.registry import driver_for

    driving.run_due()
    driver_for("local").fail("ensure_volume", "denied", times=-1)
    driving.run_due(horizon_s=3600, rounds=1)
    home.refresh_from_db()
    assert (home.phase, home.reason) == ("running", "denied")


def test_a_limit_is_for_those_who_manage_volumes(home, as_user, alice, bob, mona, charlie):
    path = f"{API}/{home.uid}"
    body = {"size_limit_mib": 1024}
    for user, code in ((bob, 403), (charlie, 404), (mona, 202)):
        answer = as_user(user).patch(path, body, content_type="application/json")
        assert answer.status_code == code, user
    home.refresh_from_db()
    assert home.size_limit_mib == 1024
    strange = as_user(mona).patch(path, {"owner": "mona"}, content_type="application/json")
    assert strange.status_code == 400


def test_a1_strangers_find_no_volume(home, as_user, charlie, alice):
    client = as_user(charlie)
    assert client.get(API).status_code == 404
    assert client.get(f"{API}/{home.uid}").status_code == 404
    unknown = as_user(alice).get(f"{API}/00000000-0000-4000-8000-000000000000")
    assert unknown.status_code == 404


def test_removal_waits_for_what_uses_it(home, project):
    from volumes import references

    uses = [True]
    question = lambda volume: volume.pk == home.pk and uses[0]  # noqa: E731
    references.register(question)
    try:
        removal.volumes_request_delete(actor=None, project=project)
        driving.run_due(rounds=2)
        home.refresh_from_db()
        assert (home.phase, home.deleted_at) == ("deleting", None)
        uses[0] = False
        driving.run_due()
        home.refresh_from_db()
        assert home.deleted_at is not None
    finally:
        references._questions.unregister(question)
