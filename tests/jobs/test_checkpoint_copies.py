"""Copies of checkpoints: when they are due, what a store said, and the newest back before a start."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from common.clock import now
from common.errors import Invalid
from jobs import checkpoints
from jobs.kind import JOB
from jobs.models import Copies, Job
from jobs.states import state_of
from loaders.models import Load
from loaders.reports import parse, report_store
from loaders.runtime_spec import plan_of
from notifications.models import Notification
from runtime.hints import hint
from work import services

pytestmark = pytest.mark.django_db

KEY = "1700000002000000000-step-2"


@pytest.fixture
def made(project: Any, principal: Any, settle: Any, shared: Any) -> Callable[..., Job]:
    """A running job whose checkpoints are copied."""

    def make(user: Any, **said: Any) -> Job:
        base = {"command": ["python", "train.py"], "checkpoints": "shared/runs"}
        base |= {"checkpoints_to": "s3://lake/kept"}
        asked = {"principal": principal(user), "project": project, "kind": JOB}
        row: Job = services.workload_create(**asked, said={**base, **said})
        settle(shared)
        found: Job = settle(row)
        return found

    return make


@pytest.fixture
def ended(fake: Any, settle: Any) -> Callable[..., Load]:
    """Let the latest load of a direction end: its last report, then its process."""

    def run(direction: str, ends: int = 0, files: Any = ((KEY, 12),), **final: Any) -> Load:
        load = settle(Load.objects.filter(direction=direction).latest("pk"))
        counts = dict.fromkeys(("found", "done", "unchanged", "skipped", "failed", "deleted"), 0)
        body = {
            "launch": load.launch,
            "seq": load.seq + 1,
            "phase": "ended",
            "files": counts,
            "bytes": {"found": 0, "done": 0, "read": 0},
            "rate_bytes_s": 0,
            "concurrency": 1,
            "listed": True,
            "final": {"exit": ends, "code": "done", "message": "", "files": list(files), **final},
        }
        report_store(load.uid, parse(json.loads(json.dumps(body))))
        fake.exit(str(load.uid), code=ends)
        hint(load)
        found: Load = settle(load)
        hint(
            Job.objects.get(uid=str(found.made_for))
        )  # which is told once that transaction is over
        return found

    return run


def due_now() -> int:
    Copies.objects.filter(due_at__isnull=False).update(due_at=now() - timedelta(seconds=1))
    return checkpoints.copies_due()


def assert_names_are_the_owners(row: Job, owner: Any, other: Any) -> None:
    """As those of what its runs leave: others are told how many, and how large."""
    Copies.objects.update(note="the store's words", restored=KEY)
    at = f"/api/v1/projects/{row.project.slug}/jobs/{row.short_id}"
    told = other.get(at).json()["checkpoint_copies"]
    assert told["kept"] == [{"name": None, "bytes": 12}]
    assert (told["message"], told["restored"]) == (None, None)
    assert owner.get(at).json()["checkpoint_copies"]["restored"] == "step-2"
    pages = [one.get(row.get_absolute_url()).content.decode() for one in (owner, other)]
    assert ["<code>step-2</code>" in page for page in pages] == [True, False]
    assert ["the store&#x27;s words" in page for page in pages] == [True, False]
    assert "Copied checkpoints" in pages[1]
    Copies.objects.update(note="", restored="")


def test_a7_complete_ones_are_copied_beside_the_run_and_once_more_at_its_end(
    made: Any, ended: Any, end: Any, credential: Any, alice: Any, bob: Any, as_user: Any
) -> None:
    credential()
    row = made(alice, checkpoints_kept=3)
    assert (checkpoints.copies_due(), Load.objects.count()) == (0, 0)  # it has just begun
    assert due_now() == 1
    load = Load.objects.get()
    assert (load.made_for, load.url) == (row.uid, f"s3://lake/kept/checkpoints-{row.short_id}/")
    assert (load.volume.name, load.folder) == ("shared", f"runs/{row.short_id}")
    plan = plan_of(load, None)
    assert (plan["newest"], "marker" in plan) == (3, False)
    assert due_now() == 0  # it is on its way: another one follows it
    ended("out")
    at = f"/api/v1/projects/{row.project.slug}/jobs/{row.short_id}"
    told = as_user(alice).get(at).json()["checkpoint_copies"]
    assert (told["kept"], told["message"]) == ([{"name": "step-2", "bytes": 12}], "")
    assert_names_are_the_owners(row, as_user(alice), as_user(bob))
    end(row, 0)
    assert checkpoints.copies_due() == 1
    ended("out")
    load.refresh_from_db()
    assert (Copies.objects.get().due_at, load.launch, Load.objects.count()) == (None, 2, 1)


def test_a_bucket_that_denies_is_said_once_and_harms_no_training(
    made: Any, ended: Any, credential: Any, alice: Any, as_user: Any, settle: Any
) -> None:
    credential()
    row = made(alice)
    for _time in range(2):
        assert due_now() == 1
        ended("out", 4, (), code="denied", message="The store refuses this credential.")
    at = f"/api/v1/projects/{row.project.slug}/jobs/{row.short_id}"
    told = as_user(alice).get(at).json()
    assert "refuses" in told["checkpoint_copies"]["message"]
    assert (told["status"]["state"], settle(row).launch) == ("running", 1)
    (note,) = Notification.objects.filter(kind="job.checkpoints")
    assert note.user == alice
    page = as_user(alice).get(row.get_absolute_url()).content.decode()
    assert "refuses" in page
    assert "None was copied yet" in page
    assert due_now() == 1  # and it is tried on
    ended("out")
    assert Copies.objects.get().note == ""


def test_a_credential_that_goes_is_said_too(made: Any, credential: Any, alice: Any) -> None:
    one = credential()
    made(alice)
    one.delete()
    assert due_now() == 0
    copies = Copies.objects.get()
    assert "No credential" in copies.note
    assert copies.due_at is not None


def test_g13_a_start_waits_until_its_folder_has_the_newest_copy(
    made: Any,
    ended: Any,
    end: Any,
    credential: Any,
    alice: Any,
    bob: Any,
    as_user: Any,
    principal: Any,
    settle: Any,
) -> None:
    """What the store says is its owner's to read."""
    credential()
    row = made(alice)
    due_now()
    ended("out")
    end(row, 3)
    due_now()
    ended("out")
    services.workload_start(principal=principal(alice), row=row)
    row = settle(row)
    assert (state_of(row), row.reason) == ("queued", "restoring")
    back = Load.objects.get(direction="in")
    assert (back.folder, back.url) == (f"runs/{row.short_id}", Copies.objects.get().url)
    plan = plan_of(back, None)
    assert (plan["newest"], plan["newest_at"]) == (2, int(KEY.partition("-")[0]))
    ended("in", 4, (), code="denied", message="The store refuses this credential.")
    row = settle(row)
    assert (state_of(row), row.reason, row.message) == ("queued", "not-restored", "")
    Copies.objects.update(note="of a copy before")
    at = f"/api/v1/projects/{row.project.slug}/jobs/{row.short_id}"
    mine, his = (as_user(who).get(at).json() for who in (alice, bob))
    assert "refuses" in mine["checkpoint_copies"]["message"]
    assert his["status"]["reason"] == "not-restored"
    assert "refuses" not in json.dumps(his)
    Copies.objects.update(back_at=now() - timedelta(minutes=2))
    hint(row)
    settle(row)
    ended("in")
    row = settle(row)
    assert (state_of(row), row.launch) == ("running", 2)
    copies = Copies.objects.get()
    assert (copies.restored, copies.back_done) == (KEY, 2)
    assert Load.objects.filter(direction="in").count() == 1


def test_g13_one_whose_volume_is_another_gets_it_there(
    made: Any,
    ended: Any,
    end: Any,
    credential: Any,
    alice: Any,
    principal: Any,
    settle: Any,
    project: Any,
) -> None:
    from volumes.services.create import NewVolume, volume_create

    credential()
    row = made(alice)
    due_now()
    ended("out")
    end(row, 3)
    wanted = NewVolume("other", 1024)
    who = principal(alice)
    other = settle(volume_create(principal=who, project=project, wanted=wanted))
    said = {"volumes": ["other"], "checkpoints": "other/runs"}
    services.workload_edit(principal=principal(alice), row=row, said=said)
    row.refresh_from_db()
    services.workload_start(principal=principal(alice), row=row)
    row = settle(row)
    assert row.reason == "restoring"
    assert Load.objects.get(direction="in").volume == other
    ended("in")
    assert state_of(settle(row)) == "running"


def test_g13_what_berth_itself_refuses_holds_up_no_start_whose_folder_is_there(
    made: Any, ended: Any, end: Any, credential: Any, alice: Any, principal: Any, settle: Any
) -> None:
    one = credential()
    row = made(alice)
    due_now()
    ended("out", files=((KEY, 12), ("no-key", 1), ("1700000002000000000-" + "n" * 300, 1)))
    assert Copies.objects.get().kept == [[KEY, 12]]
    end(row, 3)
    one.delete()
    services.workload_start(principal=principal(alice), row=Job.objects.get(pk=row.pk))
    row = settle(row)
    assert (state_of(row), row.launch) == ("running", 2)
    assert "No credential" in Copies.objects.get().note


@pytest.mark.parametrize("elsewhere", ["other/runs", "shared/another"])
def test_g13_it_holds_up_one_whose_folder_is_another(
    made: Any,
    ended: Any,
    end: Any,
    credential: Any,
    alice: Any,
    principal: Any,
    settle: Any,
    project: Any,
    elsewhere: str,
) -> None:
    from volumes.services.create import NewVolume, volume_create

    one = credential()
    who = principal(alice)
    settle(volume_create(principal=who, project=project, wanted=NewVolume("other", 1024)))
    row = made(alice, volumes=["shared", "other"])
    due_now()
    ended("out")
    end(row, 3)
    services.workload_edit(principal=who, row=row, said={"checkpoints": elsewhere})
    one.delete()
    services.workload_start(principal=who, row=Job.objects.get(pk=row.pk))
    assert settle(row).reason == "not-restored"


def test_a_copy_at_the_end_that_failed_is_tried_again_for_a_day(
    made: Any, ended: Any, end: Any, credential: Any, alice: Any
) -> None:
    credential()
    row = made(alice)
    end(row, 0)
    assert due_now() == 1
    ended("out", 4, (), code="unreachable", message="The store does not answer.")
    assert Copies.objects.get().due_at is not None
    Job.objects.filter(pk=row.pk).update(phase_since=now() - timedelta(days=2))
    assert due_now() == 1
    ended("out", 4, (), code="unreachable", message="The store does not answer.")
    assert Copies.objects.get().due_at is None


def test_what_can_not_be_copied_is_refused_by_name(made: Any, credential: Any, alice: Any) -> None:
    def refused(**said: Any) -> str:
        with pytest.raises(Invalid) as error:
            made(alice, **said)
        ((field, _said),) = error.value.fields.items()
        return str(field)

    assert refused() == "checkpoints_to"  # no credential
    credential()
    assert refused(checkpoints="") == "checkpoints"
    assert refused(checkpoints_to="output") == "checkpoints_to"
    assert refused(checkpoints_to="file:///x") == "checkpoints_to"
    row = made(alice, checkpoints_to="output", output="s3://lake/results")
    assert Copies.objects.get().url == f"s3://lake/results/checkpoints-{row.short_id}/"
