"""Deletion: refused while mounted, undone for some days, then carried out for good."""

from datetime import timedelta

import pytest
import time_machine

from common.clock import now
from notifications.models import Notification
from tests.volumes.conftest import API, JSON
from tests.volumes.test_making import reserved
from volumes.models import Volume
from volumes.services import create, removal

LATER = timedelta(days=7, minutes=5)


def test_a_mounted_volume_stays_and_its_holders_are_named(as_user, make, bob, held):
    row, client = make(bob), as_user(bob)
    with held(row):
        answer = client.delete(f"{API}/{row.uid}")
        assert (answer.status_code, answer.json()["code"]) == (409, "volume-in-use")
        assert answer.json()["holders"] == [
            {"kind": "workspace", "id": "1", "name": "lab", "who": "Alice"}
        ]
        page = client.get(f"/projects/vision/volumes/{row.uid}/settings/").content.decode()
        assert "/somewhere" in page
        assert "delete-volume" not in page
    assert client.delete(f"{API}/{row.uid}").status_code == 202


def test_the_typed_name_is_checked_by_the_server(as_user, make, bob):
    row, client = make(bob), as_user(bob)
    url = f"/projects/vision/volumes/{row.uid}/delete/"
    assert client.post(url, {"confirm": "other"}).status_code == 422
    row.refresh_from_db()
    assert row.desired == "running"
    assert client.post(url, {"confirm": "set"}).status_code == 302
    row.refresh_from_db()
    assert row.desired == "absent"


def test_it_waits_for_the_days_of_undo_and_comes_back_whole(as_user, make, bob, machine, settle):
    row, client = make(bob), as_user(bob)
    machine.fill_volume(row.uid, 77)
    client.delete(f"{API}/{row.uid}")
    settle()
    row.refresh_from_db()
    assert (row.phase, row.deleted_at, reserved(row)) == ("stopped", None, 2048)
    assert machine.volume_seen(row.uid)["bytes"] == 77
    assert "Bring it back" in client.get(row.get_absolute_url()).content.decode()
    assert client.post(f"{API}/{row.uid}/restore", {}, content_type=JSON).status_code == 202
    settle()
    row.refresh_from_db()
    assert (row.phase, row.desired, row.delete_after, row.used_bytes) == (
        "running",
        "running",
        None,
        77,
    )


def test_c9_after_the_days_it_is_wiped_and_its_place_is_free_again(
    make, bob, machine, settle, principal
):
    row = make(bob)
    removal.volume_delete(principal=principal(bob), volume=row)
    with time_machine.travel(now() + LATER, tick=False):
        settle()
        row.refresh_from_db()
        assert row.deleted_at is not None
        assert machine.volume_seen(row.uid) is None
        assert reserved(row) == 0
        again = make(bob)
    assert again.uid != row.uid  # another place: nothing of the old one is ever bound again


def test_too_late_is_said(as_user, make, bob, principal):
    row = make(bob)
    removal.volume_delete(principal=principal(bob), volume=row)
    with time_machine.travel(now() + LATER, tick=False):
        answer = as_user(bob).post(f"{API}/{row.uid}/restore", {}, content_type=JSON)
    assert (answer.status_code, answer.json()["code"]) == (409, "volume-undo-over")


def test_its_name_is_free_meanwhile_and_undo_asks_for_another_one(as_user, make, bob):
    row, client = make(bob), as_user(bob)
    client.delete(f"{API}/{row.uid}")
    make(bob, size_mib=1024)
    taken = client.post(f"{API}/{row.uid}/restore", {}, content_type=JSON)
    assert (taken.status_code, taken.json()["code"]) == (409, "name-taken")
    back = client.post(f"{API}/{row.uid}/restore", {"name": "set-2"}, content_type=JSON)
    assert back.json()["name"] == "set-2"


def test_nobody_uses_what_is_being_deleted(make, bob, project, principal):
    from common.errors import Conflict
    from volumes import selectors

    row = make(bob)
    removal.volume_delete(principal=principal(bob), volume=row)
    with pytest.raises(Conflict, match="being deleted"):
        selectors.volume_for_use(principal(bob), project, row.uid, write=False)
    assert row not in selectors.volumes_mountable(principal(bob), project)


def test_removal_at_once_is_for_managers_and_frees_what_it_held(
    as_user, make, bob, mona, machine, settle
):
    row = make(bob)
    url = f"{API}/{row.uid}/purge"
    assert as_user(bob).post(url).status_code == 403
    assert as_user(mona).post(url).status_code == 400
    why = {"reason": "it holds nothing"}
    assert as_user(mona).post(url, why, content_type="application/json").status_code == 202
    assert Notification.objects.filter(user=bob, kind="work.deleted").count() == 1
    settle()
    row.refresh_from_db()
    assert row.deleted_at is not None
    assert (machine.volume_seen(row.uid), reserved(row)) == (None, 0)


def test_a_project_that_goes_takes_its_volumes_at_once(
    as_user, make, bob, alice, project, principal, settle, machine
):
    from projects import hooks
    from projects.services.life import project_request_delete

    kept, gone = make(bob), make(bob, "gone")
    create.home_ensure(principal=principal(bob), project=project, owner=bob)
    removal.volume_delete(principal=principal(bob), volume=gone)
    texts = [s.text for s in hooks.summaries(project)]
    assert "1 home with its files" in texts
    assert "2 volumes with their files" in texts
    project_request_delete(principal=principal(alice), project=project, confirm="vision")
    settle(rounds=20)
    project.refresh_from_db()
    assert project.deleted_at is not None
    assert not Volume.objects.filter(deleted_at__isnull=True).exists()
    assert machine.volume_seen(kept.uid) is None


def test_what_somebody_made_stays_when_he_leaves(as_user, make, bob, mona, project, principal):
    from projects.services.members import member_remove

    row = make(bob)
    member_remove(principal=principal(mona), project=project, user=bob)
    answer = as_user(mona).get(f"{API}/{row.uid}").json()
    assert (answer["created_by"], answer["desired"]) == ("bob", "running")
    assert as_user(bob).get(f"{API}/{row.uid}").status_code == 404
    assert as_user(mona).delete(f"{API}/{row.uid}?reason=they+left").status_code == 202


def test_a_machine_that_fails_delays_and_loses_nothing(make, bob, machine, settle, principal):
    row = make(bob)
    removal.volume_purge(principal=principal(_manager(row)), volume=row, said="full")
    machine.fail("remove_volume", "unreachable", times=2)
    settle(horizon_s=60)
    row.refresh_from_db()
    assert row.deleted_at is not None
    assert machine.volume_seen(row.uid) is None


def _manager(row):
    from projects.models import Membership

    return Membership.objects.get(project=row.project, role="manager").user
