"""Making a volume larger where storage has a word in it: what is refused before, and after."""

from datetime import timedelta

import pytest
import time_machine

from common.clock import now
from events.models import Event
from runtime.capabilities.volumes import Growing
from tests.volumes.conftest import API, JSON
from tests.volumes.test_changing import patch
from tests.volumes.test_making import reserved
from volumes.choices import BackingKind
from volumes.models import Volume

SAID = "The storage is slow today."
ADVICE = "Make a larger volume and copy the files into it, or ask an operator."


def page(client, row, tail=""):
    return client.get(f"/projects/vision/volumes/{row.uid}/{tail}").content.decode()


def fixed(row):
    """Its storage class lets nothing grow; the engine has not looked since."""
    Volume.objects.filter(pk=row.pk).update(
        backing_kind=BackingKind.STORAGE_CLASS, backing_options={"storage_class": "fixed"}
    )


@pytest.fixture
def row(make, bob, settle):
    """Of 2 GiB, that its storage gave."""
    made = make(bob)
    assert (made.given_mib, made.growing_since) == (2048, None)
    return made


@pytest.fixture
def slow(machine, monkeypatch):
    """Storage that takes its time, until it is let."""
    given = {"enough": 2048}
    ensure = machine.ensure_volume

    def asked(uid, *, backing=None, **options):
        if backing.size_mib > given["enough"]:
            raise Growing(SAID, retry_in=5.0)
        ensure(uid, backing=backing, **options)

    monkeypatch.setattr(type(machine), "ensure_volume", lambda _self, *a, **k: asked(*a, **k))
    return given


class TestWhatIsKnownBefore:
    @pytest.fixture(autouse=True)
    def known(self, row, settle):
        fixed(row)
        settle(horizon_s=700, rounds=1)
        row.refresh_from_db()
        assert row.abilities["grow"] is False

    def test_nothing_is_written_and_what_to_do_is_said(self, as_user, row, bob):
        client, before = as_user(bob), row.generation
        answer = patch(client, row, size_limit_mib=4096)
        assert answer.status_code == 400
        assert ADVICE in answer.json()["detail"]
        url, body = f"{API}/{row.uid}?plan=1", {"size_limit_mib": 4096}
        plan = client.patch(url, body, content_type=JSON)
        assert (plan.status_code, ADVICE in plan.json()["detail"]) == (400, True)
        row.refresh_from_db()
        assert (row.size_limit_mib, row.generation, reserved(row)) == (2048, before, 2048)
        assert client.get(f"{API}/{row.uid}").json()["can_grow"] is False

    def test_the_form_says_it_before_and_after_the_press(self, as_user, row, bob):
        client = as_user(bob)
        assert "its storage does not allow it" in page(client, row, "settings/")
        form = {"name": "set", "size": "4", "description": "", "write_policy": "everybody"}
        answer = client.post(f"/projects/vision/volumes/{row.uid}/settings/", form)
        assert answer.status_code == 422
        assert ADVICE in answer.content.decode()

    def test_the_rest_of_it_can_be_changed(self, as_user, row, bob):
        assert patch(as_user(bob), row, description="still").status_code == 202


class TestRefusedByStorage:
    """Nobody knew: the class was changed on the cluster after the engine looked last."""

    @pytest.fixture(autouse=True)
    def refused(self, as_user, row, bob, settle):
        fixed(row)
        answer = patch(as_user(bob), row, size_limit_mib=4096)
        assert (answer.status_code, reserved(row)) == (202, 4096)
        settle()
        row.refresh_from_db()

    def test_size_and_limits_are_as_before_and_it_stays_in_use(self, row, settle):
        assert (row.size_limit_mib, row.given_mib, reserved(row)) == (2048, 2048, 2048)
        assert (row.phase, row.reason, row.failures) == ("running", "", 0)
        assert settle() == 0  # nobody tries it again and again

    def test_why_and_what_to_do_is_said_until_the_next_wish(self, as_user, row, bob):
        client = as_user(bob)
        said = client.get(f"{API}/{row.uid}").json()["growth_refused"]
        assert "The fake storage stays as it is." in said
        assert ADVICE in said
        assert ADVICE in page(client, row)
        told = Event.objects.get(verb="volume.not-resized")
        assert told.message == "The fake storage stays as it is."
        assert told.data["size_limit_mib"] == {"from": 4096, "to": 2048}
        assert "could not change the size of the volume" in page(client, row, "events/")
        Volume.objects.filter(pk=row.pk).update(backing_options={}, abilities={})
        assert patch(client, row, size_limit_mib=3072).json()["growth_refused"] == ""

    def test_what_was_never_seen_to_be_given_is_taken_from_the_driver(
        self, as_user, row, bob, settle
    ):
        Volume.objects.filter(pk=row.pk).update(given_mib=None, abilities={})
        assert patch(as_user(bob), row, size_limit_mib=8192).status_code == 202
        settle()
        row.refresh_from_db()
        assert (row.size_limit_mib, reserved(row)) == (2048, 2048)


def test_a_change_that_came_between_is_not_taken_back(row, bob, as_user):
    from volumes.services.edit import growth_refused

    seen = Volume.objects.get(pk=row.pk)
    assert patch(as_user(bob), row, size_limit_mib=4096).status_code == 202
    growth_refused(volume=seen, why="No.", size_mib=2048)
    row.refresh_from_db()
    assert (row.size_limit_mib, row.growth_refused, reserved(row)) == (4096, "", 4096)


def test_a_home_without_a_limit_has_none_again(project, bob, principal, settle):
    from volumes.services import create, edit

    home = create.home_ensure(principal=principal(bob), project=project, owner=bob)
    settle()
    home.refresh_from_db()
    assert home.given_mib == 0
    Volume.objects.filter(pk=home.pk).update(size_limit_mib=4096)
    home.refresh_from_db()
    edit.growth_refused(volume=home, why="No.", size_mib=2048)
    home.refresh_from_db()
    assert (home.size_limit_mib, reserved(home)) == (None, 0)


class TestUnderWay:
    @pytest.fixture(autouse=True)
    def asked(self, slow, as_user, row, bob, settle):
        settle()
        assert patch(as_user(bob), row, size_limit_mib=4096).status_code == 202
        settle(rounds=1)
        row.refresh_from_db()

    def test_it_is_in_use_and_everybody_sees_how_far_it_is(self, as_user, row, bob, slow, settle):
        client = as_user(bob)
        said = client.get(f"{API}/{row.uid}").json()
        found = [said[name] for name in ("growing", "phase", "reason", "message")]
        assert found == [True, "running", "growing", SAID]
        assert "can be used meanwhile" in page(client, row)
        assert SAID in page(client, row)
        slow["enough"] = 4096
        settle()
        said = client.get(f"{API}/{row.uid}").json()
        found = [said[name] for name in ("growing", "message", "size_limit_mib")]
        assert found == [False, "", 4096]
        row.refresh_from_db()
        assert row.given_mib == 4096

    def test_what_takes_long_is_looked_at_more_seldom(self, row, settle):
        began = row.growing_since
        assert row.next_reconcile_at - now() < timedelta(seconds=6)
        with time_machine.travel(began + timedelta(hours=1), tick=False):
            settle(rounds=1)
            row.refresh_from_db()
            assert row.growing_since == began
            assert row.next_reconcile_at - now() == timedelta(seconds=60)

    def test_the_wish_can_be_taken_back_where_a_class_only_grows(self, as_user, row, bob, settle):
        Volume.objects.filter(pk=row.pk).update(backing_kind=BackingKind.STORAGE_CLASS)
        client = as_user(bob)
        assert patch(client, row, size_limit_mib=1024).status_code == 400
        assert patch(client, row, size_limit_mib=2048).status_code == 202
        assert reserved(row) == 2048
        settle()
        row.refresh_from_db()
        assert (row.growing_since, row.reason) == (None, "")
        Volume.objects.filter(pk=row.pk).update(given_mib=1024)
        assert patch(client, row, size_limit_mib=1536).status_code == 400


def test_less_is_freed_and_never_more_taken(row):
    from quotas import services

    for amount, left in ((4096, 2048), (1024, 1024), (0, 0), (512, 0)):
        services.lower(row.uid, {"storage_mib": amount})
        assert reserved(row) == left
