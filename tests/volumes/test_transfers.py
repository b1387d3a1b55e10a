"""Handing over: both owners agree, nobody learns of projects by asking, files go along."""

from datetime import timedelta

import pytest
import time_machine

from accounts.models import User
from common.clock import now
from notifications.models import Notification
from quotas.models import Reservation
from tests.volumes.conftest import API, JSON
from volumes.models import VolumeTransfer

THERE = "/api/v1/projects/sound"


def ask(client, row, to="sound", **more):
    return client.post(f"{API}/{row.uid}/transfer", {"to": to, **more}, content_type=JSON)


def answer(client, offer, word="accept", **body):
    url = f"{THERE}/volume-transfers/{offer}/{word}"
    return client.post(url, body, content_type=JSON)


@pytest.fixture
def otto(other):
    return User.objects.get(username="otto")


@pytest.fixture
def mick(other):
    return User.objects.get(username="mick")


@pytest.fixture
def row(make, bob):
    return make(bob)


def test_asked_by_one_owner_accepted_by_the_other(
    as_user, row, alice, bob, otto, other, machine, settle
):
    machine.fill_volume(row.uid, 42)
    offer = ask(as_user(alice), row, message="for the mixes").json()
    assert Notification.objects.filter(user=otto, kind="volume.transfer-asked").exists()
    inbox = as_user(otto).get(f"{THERE}/volume-transfers").json()["results"]
    assert [(o["volume_name"], o["from_project"]) for o in inbox] == [("set", "vision")]
    said = answer(as_user(otto), offer["id"])
    assert said.status_code == 202, said.content
    assert (said.json()["project"], said.json()["moving"]) == ("sound", True)
    assert as_user(bob).get(f"{API}/{row.uid}").status_code == 404  # at once
    settle()
    row.refresh_from_db()
    assert (row.project, row.phase, row.is_moving) == (other, "running", False)
    seen = machine.volume_seen(row.uid)
    assert (seen["project"], seen["bytes"]) == (str(other.uid), 42)
    held = Reservation.objects.get(workload_uid=row.uid)
    assert (held.project, held.owner) == (other, otto)
    assert Notification.objects.filter(user=alice, kind="volume.transfer-accepted").exists()
    from events.models import Event

    told = Event.objects.filter(verb="volume.transferred").values_list("project_uid", flat=True)
    assert len(set(told)) == 2


def test_consent_is_owners_own(as_user, row, alice, bob, mona, vera, operator, charlie, mick, otto):
    for user, code in ((bob, 403), (mona, 403), (vera, 403), (operator, 403), (charlie, 404)):
        assert ask(as_user(user), row).status_code == code, user
    offer = ask(as_user(alice), row).json()["id"]
    for user, codes in (
        (mick, {404}),  # a manager there sees no offers
        (operator, {404}),
        (alice, {404}),
        (charlie, {404}),
    ):
        for word in ("accept", "decline"):
            assert answer(as_user(user), offer, word).status_code in codes, user
    assert as_user(mick).get(f"{THERE}/volume-transfers").json()["results"] == []
    assert as_user(operator).get(f"{THERE}/volume-transfers").json()["results"] == []
    assert answer(as_user(otto), offer).status_code == 202


def test_what_is_said_in_an_offer_is_for_owners(as_user, row, alice, bob, mona, vera):
    ask(as_user(alice), row, message="for the mixes")
    url = f"{API}/{row.uid}/transfer"
    said = as_user(alice).get(url).json()
    assert (said["to"], said["message"]) == ("sound", "for the mixes")
    for user in (bob, mona, vera):
        answer = as_user(user).get(url)
        assert answer.status_code == 403, user
        assert "sound" not in answer.content.decode()


def test_a10_asking_tells_nothing_about_projects(as_user, row, make, alice, bob):
    there = ask(as_user(alice), row, "sound")
    nowhere = ask(as_user(alice), make(bob, "two"), "nowhere")
    assert there.status_code == nowhere.status_code == 202
    for said, to in ((there, "sound"), (nowhere, "nowhere")):
        body = said.json()
        assert body["to"] == to
        assert set(body) == set(there.json())
        assert body["state"] == "asked"


def test_declined_and_taken_back_offers_change_nothing(as_user, row, alice, otto, project):
    client = as_user(alice)
    offer = ask(client, row).json()["id"]
    assert ask(client, row).json()["code"] == "transfer-open"
    assert answer(as_user(otto), offer, "decline").json()["state"] == "declined"
    assert answer(as_user(otto), offer).json()["code"] == "transfer-closed"
    offer = ask(client, row).json()["id"]
    assert client.delete(f"{API}/{row.uid}/transfer").status_code == 204
    assert client.get(f"{API}/{row.uid}/transfer").status_code == 404
    assert answer(as_user(otto), offer).status_code == 409
    row.refresh_from_db()
    assert row.project == project


def test_an_offer_ends_by_itself(as_user, row, alice, otto):
    offer = ask(as_user(alice), row).json()["id"]
    with time_machine.travel(now() + timedelta(days=7, minutes=1), tick=False):
        client = as_user(otto)
        assert client.get(f"{THERE}/volume-transfers").json()["results"] == []
        assert answer(client, offer).json()["code"] == "transfer-closed"
        assert ask(as_user(alice), row).status_code == 202
    assert VolumeTransfer.objects.filter(state="asked").count() == 1


def test_not_while_mounted_on_either_side_of_the_question(as_user, row, alice, otto, held):
    with held(row):
        assert ask(as_user(alice), row).json()["code"] == "volume-in-use"
    offer = ask(as_user(alice), row).json()["id"]
    with held(row):
        assert answer(as_user(otto), offer).json()["code"] == "volume-in-use"
    assert VolumeTransfer.objects.get(uid=offer).state == "asked"  # nothing half done
    assert answer(as_user(otto), offer).status_code == 202


def test_where_the_storage_cannot_it_is_said(as_user, row, alice, settle):
    from volumes.services import base

    type(row).objects.update(backing_kind="storage-class", backing_options={"storage_class": "x"})
    base.volume_measure_soon(uids=[row.uid])
    settle()
    refused = ask(as_user(alice), row)
    assert (refused.status_code, refused.json()["code"]) == (409, "no-moves")


def test_homes_shared_volumes_and_copies_stay(as_user, row, alice, project, principal, settle):
    from volumes.services import create, removal

    client = as_user(alice)
    shared = create.project_volume_ensure(principal=None, project=project)
    home = create.home_ensure(principal=principal(alice), project=project, owner=alice)
    settle()
    for kept in (shared, home):
        assert ask(client, kept).json()["code"] == "volume-kind"
    removal.snapshot_create(principal=principal(alice), volume=row, name="one")
    assert ask(client, row).json()["code"] == "has-snapshots"


def test_the_limits_of_the_other_project_hold(as_user, row, alice, otto, other, limit, project):
    limit(1024, project=other)
    offer = ask(as_user(alice), row).json()["id"]
    assert answer(as_user(otto), offer).json()["code"] == "limit-exceeded"
    row.refresh_from_db()
    assert row.project == project
    assert Reservation.objects.get(workload_uid=row.uid).project == project
    limit(2048, project=other)
    assert answer(as_user(otto), offer).status_code == 202


def test_a_name_that_is_taken_there_needs_another_one(as_user, row, alice, otto, other, principal):
    from volumes.services import create

    create.volume_create(
        principal=principal(otto), project=other, wanted=create.NewVolume("set", 1024)
    )
    offer = ask(as_user(alice), row).json()["id"]
    assert answer(as_user(otto), offer).json()["code"] == "name-taken"
    assert answer(as_user(otto), offer, name="set-2").json()["name"] == "set-2"


def test_nobody_uses_it_until_its_files_followed(as_user, row, alice, otto, machine, settle):
    offer = ask(as_user(alice), row).json()["id"]
    machine.fail("move_volume", "unreachable", times=-1)
    answer(as_user(otto), offer)
    settle(rounds=3)
    assert as_user(otto).get(f"{THERE}/volumes/{row.uid}").json()["moving"] is True
    gone = as_user(otto).delete(f"{THERE}/volumes/{row.uid}")
    assert gone.json()["code"] == "volume-moving"
    machine.heal()
    settle(horizon_s=600)
    assert as_user(otto).get(f"{THERE}/volumes/{row.uid}").json()["moving"] is False


def test_the_inbox_is_a_form_without_a_script(as_user, row, alice, otto):
    offer = ask(as_user(alice), row).json()["id"]
    client = as_user(otto)
    page = client.get("/projects/sound/volumes/").content.decode()
    assert "Offered to this project" in page
    url = f"/projects/sound/volumes/offers/{offer}/"
    done = client.post(url, {"answer": "accept", "name": "set"})
    assert done["Location"] == f"/projects/sound/volumes/{row.uid}/"
    assert "Being handed over" in client.get(done["Location"]).content.decode()


def test_a_cache_that_is_handed_over_is_one_no_more(as_user, make, alice, otto, settle):
    """Its new owners may not be able to load it again, so it has its days of undo again."""
    cache = make(alice, cache_of="s3://bucket/images", cache_mark="a" * 64)
    offer = ask(as_user(alice), cache).json()["id"]
    assert answer(as_user(otto), offer).status_code == 202
    settle()
    cache.refresh_from_db()
    assert (cache.is_cache, cache.cache_of) == (False, "")
    assert cache.project.slug == "sound"
