"""Copies: made once, put back when nothing uses the volume, private for homes."""

from datetime import timedelta

import pytest

from common.clock import now
from quotas.models import Reservation
from tests.volumes.conftest import API, JSON
from volumes.models import VolumeClass, VolumeSnapshot
from volumes.services import base, create, removal


@pytest.fixture
def row(make, bob, machine, settle):
    made = make(bob)
    machine.fill_volume(made.uid, 3 * 1024**2)
    base.volume_measure_soon(uids=[made.uid])
    settle()
    made.refresh_from_db()
    return made


def take(client, row, **body):
    return client.post(f"{API}/{row.uid}/snapshots", body, content_type=JSON)


def test_a_copy_is_made_counted_and_put_back(as_user, bob, row, machine, settle):
    client = as_user(bob)
    made = take(client, row, name="one").json()
    settle()
    listed = client.get(f"{API}/{row.uid}/snapshots").json()
    assert [(c["name"], c["phase"], c["size_bytes"]) for c in listed] == [
        ("one", "running", 3 * 1024**2)
    ]
    assert Reservation.objects.get(workload_uid=made["id"]).amount == 3
    machine.fill_volume(row.uid, 99)
    url = f"{API}/{row.uid}/snapshots/{made['id']}/restore"
    said = client.post(url).json()
    assert said["restoring"] is True
    settle()
    assert machine.volume_seen(row.uid)["bytes"] == 3 * 1024**2
    assert client.get(f"{API}/{row.uid}").json()["restoring"] is False
    assert client.delete(f"{API}/{row.uid}/snapshots/{made['id']}").status_code == 202
    settle()
    assert client.get(f"{API}/{row.uid}/snapshots").json() == []
    assert not Reservation.objects.filter(workload_uid=made["id"]).exists()


def test_a_copy_that_was_made_is_never_made_again(as_user, bob, row, machine, settle):
    take(as_user(bob), row, name="one")
    settle()
    calls = machine.calls("ensure_snapshot")
    settle(horizon_s=10_000, rounds=3)
    assert machine.calls("ensure_snapshot") == calls


def test_a_copy_that_waits_sleeps_while_its_volume_may_still_come_back(
    as_user, bob, row, machine, settle
):
    """Its days of undo are many; asking every two seconds would be a load for nothing."""
    client = as_user(bob)
    take(client, row, name="one")
    assert client.delete(f"{API}/{row.uid}").status_code == 202
    settle()
    copy = VolumeSnapshot.objects.get()
    assert copy.phase == "pending"
    assert copy.next_reconcile_at > now() + timedelta(minutes=5)
    assert client.post(f"{API}/{row.uid}/restore", {}, content_type=JSON).status_code == 202
    settle()
    copy.refresh_from_db()
    assert copy.phase == "running"


def test_putting_back_needs_a_volume_that_nobody_uses(as_user, bob, row, held, settle):
    client = as_user(bob)
    made = take(client, row, name="one").json()
    settle()
    url = f"{API}/{row.uid}/snapshots/{made['id']}/restore"
    with held(row):
        answer = client.post(url)
        assert (answer.status_code, answer.json()["code"]) == (409, "volume-in-use")
    page = f"/projects/vision/volumes/{row.uid}/snapshots/{made['id']}/restore/"
    assert client.post(page, {"confirm": "wrong"}).status_code == 422
    row.refresh_from_db()
    assert not row.is_restoring


def test_nobody_starts_on_a_home_that_is_being_restored(bob, project, principal, settle, machine):
    from common.errors import Conflict
    from notebooks.services import ensure_default_presets
    from tests.support.workspaces import workspace_launch

    ensure_default_presets()
    who = principal(bob)
    home = create.home_ensure(principal=who, project=project, owner=bob)
    settle()
    copy = removal.snapshot_create(principal=who, volume=home)
    settle()
    removal.snapshot_restore(principal=who, snapshot=copy)
    with pytest.raises(Conflict, match="being restored"):
        workspace_launch(principal=who, project=project)
    settle()
    assert workspace_launch(principal=who, project=project).home == home


def test_copies_of_a_home_are_its_owners(as_user, bob, alice, mona, project, principal, settle):
    home = create.home_ensure(principal=principal(bob), project=project, owner=bob)
    settle()
    made = take(as_user(bob), home, name="mine")
    assert made.status_code == 202
    for user in (alice, mona):
        assert take(as_user(user), home).status_code == 403
        assert as_user(user).get(f"{API}/{home.uid}/snapshots").json() == []
        one = f"{API}/{home.uid}/snapshots/{made.json()['id']}"
        assert as_user(user).get(one).status_code == 404
        assert as_user(user).delete(one).status_code == 404


def test_only_where_class_and_driver_can(as_user, bob, row, settle):
    client = as_user(bob)
    VolumeClass.objects.update(can_snapshot=False)
    assert take(client, row).json()["code"] == "no-snapshots"
    VolumeClass.objects.update(can_snapshot=True)
    type(row).objects.update(backing_kind="nfs", backing_options={"server": "a", "export": "/b"})
    base.volume_measure_soon(uids=[row.uid])
    settle()
    assert take(client, row).json()["code"] == "no-snapshots"


def test_names_are_made_from_the_time_and_are_once_in_a_volume(as_user, bob, row):
    client = as_user(bob)
    first, second = take(client, row).json(), take(client, row).json()
    assert first["name"] != second["name"]
    assert take(client, row, name=first["name"]).json()["code"] == "name-taken"
    assert take(client, row, name="../x").status_code == 400


def test_a_volume_keeps_so_many_and_no_more(as_user, bob, row):
    from volumes.services.removal import MOST

    client = as_user(bob)
    for number in range(MOST):
        assert take(client, row, name=f"c{number}").status_code == 202
    assert take(client, row).json()["code"] == "too-many-snapshots"


def test_copies_count_as_storage(as_user, bob, row, project, limit):
    limit(2050, project=project)
    refused = take(as_user(bob), row)
    assert refused.json()["code"] == "limit-exceeded"


def test_copies_go_before_their_volume(as_user, bob, mona, row, machine, settle):
    take(as_user(bob), row, name="one")
    settle()
    as_user(mona).post(f"{API}/{row.uid}/purge", {"reason": "r"}, content_type="application/json")
    settle(rounds=10)
    row.refresh_from_db()
    assert row.deleted_at is not None
    assert not VolumeSnapshot.objects.filter(deleted_at__isnull=True).exists()
    assert machine.calls("remove_snapshot") >= 1
