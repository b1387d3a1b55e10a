"""What apps above ask: who may use which volume, how it is mounted, what room is left."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from common.errors import Conflict, Forbidden, NotFound
from runtime.spec import Backing
from tests.volumes.conftest import API
from volumes import backing, selectors
from volumes.services import base, create


@pytest.fixture
def use(project, principal):
    return lambda who, row, *, write=False: selectors.volume_for_use(
        principal(who), project, row.uid, write=write
    )


@pytest.fixture
def home(project, bob, principal, settle):
    row = create.home_ensure(principal=principal(bob), project=project, owner=bob)
    settle()
    return row


def test_a_home_is_used_by_its_owner_only(use, home, bob, alice, mona, operator, charlie):
    assert use(bob, home, write=True) == home
    for user in (alice, mona, operator):
        with pytest.raises(Forbidden, match="private"):
            use(user, home)
    with pytest.raises(NotFound):
        use(charlie, home)


def test_what_is_shared_needs_the_right_to_use(use, make, alice, bob, vera, operator, charlie):
    row = make(alice)
    assert use(bob, row, write=True) == row
    for user in (vera, operator):  # an operator looks into nobody's files
        with pytest.raises(Forbidden):
            use(user, row)
    with pytest.raises(NotFound):
        use(charlie, row)


def test_a1_a_volume_of_another_project_is_not_found(make, alice, other, principal):
    row = make(alice)
    with pytest.raises(NotFound):
        selectors.volume_for_use(principal(alice), other, row.uid, write=False)


def test_a_read_only_volume_is_written_by_its_maker_and_managers(use, make, alice, bob, mona):
    row = make(bob, write_policy="managers")
    other = make(mona, "other", write_policy="managers")
    assert use(bob, row, write=True)
    assert use(mona, row, write=True)
    assert use(bob, other)
    with pytest.raises(Forbidden, match="only be read"):
        use(bob, other, write=True)


def test_a_full_volume_is_read_but_not_written(use, make, bob, machine, settle):
    row = make(bob, size_mib=1024)
    assert selectors.room_left(row) == 1024**3
    machine.fill_volume(row.uid, 1024**3)
    settle(horizon_s=700, rounds=1)
    row.refresh_from_db()
    assert selectors.room_left(row) == 0
    assert use(bob, row)
    with pytest.raises(Conflict, match="full"):
        use(bob, row, write=True)


def test_unknown_room_is_unknown(make, bob, home):
    assert selectors.room_left(home) is None
    row = make(bob)
    row.used_bytes = None
    assert selectors.room_left(row) is None


def test_what_can_be_mounted_is_ones_own_home_and_what_is_shared(
    make, home, alice, bob, vera, project, principal
):
    row = make(alice)
    shared = create.project_volume_ensure(principal=None, project=project)
    mine = create.home_ensure(principal=principal(alice), project=project, owner=alice)
    assert set(selectors.volumes_mountable(principal(bob), project)) == {home, row, shared}
    assert set(selectors.volumes_mountable(principal(alice), project)) == {mine, row, shared}
    assert list(selectors.volumes_mountable(principal(vera), project)) == []
    assert list(selectors.volumes_mountable(principal(bob), project, "elsewhere")) == []


def test_c8_the_platform_chooses_how_it_is_mounted(make, bob, home, project):
    row = make(bob)
    mount = backing.mount_of(row, read_only=True)
    assert (mount.volume_uid, mount.name, mount.owner, mount.path) == (str(row.uid), "set", "", "")
    assert mount.read_only
    assert mount.backing == Backing("directory", {}, 2048)
    own = backing.mount_of(home, role="home")
    assert (own.name, own.owner, own.role) == ("home", str(bob.uid), "home")


def test_use_is_noted(make, bob, alice):
    row = make(alice)
    base.volume_note_use(uids=[str(row.uid)], user=bob)
    row.refresh_from_db()
    assert row.last_used_by == bob
    assert row.last_used_at is not None


def test_a_new_measurement_can_be_asked_for(make, bob, machine, settle):
    row = make(bob)
    machine.fill_volume(row.uid, 5)
    settle()
    row.refresh_from_db()
    assert row.used_bytes == 0  # not due yet
    base.volume_measure_soon(uids=[str(row.uid)])
    settle()
    row.refresh_from_db()
    assert row.used_bytes == 5


def test_the_api_reads_a_volume_once_to_show_it(as_user, alice, make):
    row, client = make(alice), as_user(alice)
    client.get(f"{API}/{row.uid}")
    with CaptureQueriesContext(connection) as asked:
        assert client.get(f"{API}/{row.uid}").status_code == 200
    assert len([q for q in asked if 'FROM "volumes_volume"' in q["sql"]]) == 1
