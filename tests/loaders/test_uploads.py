"""Parts that an export left at the store: one more run gives them up, and only when it must."""

import json
from typing import Any

import pytest

from clusters.models import Cluster
from common.clock import now
from events.models import Event
from loaders import services
from loaders.choices import State, Uploads
from loaders.models import Load
from loaders.runtime_spec import plan_of
from loaders.services import uploads
from loaders.states import state_of
from projects.services.life import project_request_delete
from runtime.hints import hint
from runtime.ports import Waiting, admission
from tests.projects.cluster_double import KEY, alpha
from work import services as work

__all__ = ["alpha"]


@pytest.fixture
def export(load: Any, alice: Any) -> Any:
    return lambda: load(alice, "s3://bucket/out", direction="out")


def cancelled(row: Any, settle: Any, principal: Any) -> Any:
    services.load_cancel(principal=principal(row.owner), row=row)
    return settle(row)


def test_a_cancelled_export_gives_up_its_parts_once(export, settle, principal, end, fake):
    row = cancelled(settle(export()), settle, principal)
    assert (state_of(row), row.uploads, row.launch) == (State.CANCELLED, Uploads.CLOSING, 2)
    assert plan_of(row, None)["mode"] == "abandon"
    with fake._store.open() as seen:
        assert seen["starts"][str(row.uid)] == [1, 2]
    end(row, 0)
    assert (state_of(row), row.uploads, row.phase) == (State.CANCELLED, Uploads.NONE, "stopped")
    assert [run.result for run in row.runs.all()] == ["cancelled"]
    settle(row, horizon_s=4000)
    assert row.launch == 2


def test_a_paused_export_keeps_them_until_it_is_cancelled(export, settle, principal, end):
    row = settle(export())
    work.workload_stop(principal=principal(row.owner), row=row)
    assert (settle(row).uploads, row.launch) == (Uploads.OPEN, 1)
    cancelled(row, settle, principal)
    assert end(row, 0).uploads == Uploads.NONE
    assert state_of(row) == State.CANCELLED


def test_a_removed_export_goes_when_its_parts_are_gone(export, settle, principal, end):
    row = settle(export())
    work.workload_delete(principal=principal(row.owner), row=row)
    assert state_of(settle(row)) == State.DELETING
    assert row.deleted_at is None
    end(row, 0)
    assert row.deleted_at is not None
    assert [run.result for run in row.runs.all()] == ["cancelled"]


def test_what_was_sent_whole_leaves_nothing_to_give_up(export, settle, principal, end):
    row = end(settle(export()), 0)
    assert row.uploads == Uploads.NONE
    work.workload_delete(principal=principal(row.owner), row=row)
    assert settle(row).deleted_at is not None
    assert row.launch == 1


@pytest.mark.parametrize("told", ["in its report", "in its last words"])
def test_what_the_store_kept_of_a_whole_export_is_given_up_later(
    export, settle, principal, end, report, told
):
    row = settle(export())
    said = {"code": "done", "message": "", "uploads": 2}
    if told == "in its report":
        report(row, 9, final={"exit": 0, "manifest": "", **said})
        end(row, 0)
    else:
        end(row, 0, message=json.dumps(said))
    assert (row.result, row.uploads) == ("done", Uploads.OPEN)
    work.workload_delete(principal=principal(row.owner), row=row)
    assert settle(row).deleted_at is None
    assert plan_of(row, None)["mode"] == "abandon"
    assert end(row, 0).deleted_at is not None


def test_a_load_into_a_volume_has_none(load, alice, settle, principal):
    row = cancelled(settle(load(alice)), settle, principal)
    assert (row.uploads, row.launch) == (Uploads.NONE, 1)


def test_a_store_that_does_not_answer_is_asked_again_and_then_people_are_told(
    export, settle, principal, end
):
    row = cancelled(settle(export()), settle, principal)
    end(row, 4)
    assert (row.uploads, row.launch) == (Uploads.CLOSING, 3)
    settle(row, horizon_s=60)
    Load.objects.update(uploads_at=now() - uploads.TRIED_FOR)
    end(row, 4)
    assert (row.uploads, row.launch) == (Uploads.LEFT, 3)
    assert Event.objects.filter(verb="load.uploads-left").count() == 1
    assert state_of(row) == State.CANCELLED


def test_starting_it_again_goes_on_with_its_parts(export, settle, principal, end):
    row = cancelled(settle(export()), settle, principal)
    services.load_start(principal=principal(row.owner), row=row)
    settle(row, horizon_s=30)
    assert (row.uploads, row.launch, row.phase) == (Uploads.OPEN, 3, "running")
    assert plan_of(row, None)["mode"] == "copy"
    assert end(row, 0).result == "done"


def test_a_deleted_project_does_not_wait_for_what_can_not_run_any_more(
    alpha, export, settle, principal, alice, project
):
    cluster = Cluster.objects.get(key=KEY)
    cluster.options["data_image"] = "registry.example.org/data:1"
    cluster.save()
    row = export()
    Load.objects.update(cluster_key=KEY)
    settle(row)
    assert (row.phase, row.uploads, row.message) == ("running", Uploads.OPEN, "")
    work.workload_stop(principal=principal(alice), row=row)
    settle(row)
    project_request_delete(principal=principal(alice), project=project, confirm="vision")
    settle(row)
    assert (row.uploads, row.deleted_at is not None) == (Uploads.LEFT, True)
    assert Event.objects.get(verb="load.uploads-left").data == {"code": "project-gone"}
    project.refresh_from_db()
    assert project.deleted_at is not None
    assert alpha.places == {}


def test_without_its_credential_nothing_is_run_in_vain(
    load, alice, credential, settle, principal, fake
):
    row = settle(load(alice, "s3://bucket/out", direction="out", credential=str(credential().uid)))
    work.workload_stop(principal=principal(alice), row=row)
    settle(row)
    Load.objects.update(credential=None, anonymous=False)
    work.workload_delete(principal=principal(alice), row=row)
    settle(row)
    assert (row.uploads, row.deleted_at is not None) == (Uploads.LEFT, True)


def test_what_finds_no_place_is_given_up_in_time(export, settle, principal, monkeypatch):
    row = settle(export())
    work.workload_stop(principal=principal(row.owner), row=row)
    settle(row)
    full = Waiting(1, 0, "capacity", "No CPU is free.")
    monkeypatch.setattr(admission(), "admit", lambda _request: full)
    work.workload_delete(principal=principal(row.owner), row=row)
    assert settle(row).deleted_at is None
    assert (row.uploads, row.reason) == (Uploads.CLOSING, "capacity")
    Load.objects.update(uploads_at=now() - uploads.TRIED_FOR)
    hint(row)
    assert settle(row).deleted_at is not None
    assert row.uploads == Uploads.LEFT
    assert Event.objects.get(verb="load.uploads-left").data == {"code": "no-place"}


def test_who_only_waited_for_a_turn_has_nothing_to_give_up(export, settle, principal, settings):
    settings.BERTH_LOADS_PER_PROJECT = 1
    first, second = export(), export()
    settle(first)
    cancelled(second, settle, principal)
    assert (second.uploads, second.launch) == (Uploads.NONE, 1)
    assert (first.uploads, state_of(second)) == (Uploads.OPEN, State.CANCELLED)


def test_a_project_gives_up_only_so_many_at_once(export, settle, principal, settings, end):
    rows = [settle(export()) for _ in range(3)]
    settings.BERTH_LOADS_PER_PROJECT = 1
    for row in rows:
        work.workload_delete(principal=principal(row.owner), row=row)
    Load.objects.update(uploads_at=now() - uploads.TRIED_FOR / 2)
    settle()
    for row in rows:
        row.refresh_from_db()
    assert [row.phase for row in rows] == ["running", "pending", "pending"]
    assert rows[1].uploads_at > now() - uploads.TRIED_FOR / 4  # its time has not begun
    for n, row in enumerate(rows):
        end(row, 0)
        assert (row.uploads, row.deleted_at is not None) == (Uploads.NONE, True)
        assert [r.phase for r in Load.objects.filter(deleted_at=None)].count("running") == (n < 2)


def test_one_that_is_stopped_while_it_is_placed_is_not_begun(export, settle):
    row = export()
    stale = Load.objects.get(pk=row.pk)
    Load.objects.update(desired="stopped")
    assert not uploads.note_placed(stale)
    assert Load.objects.get().uploads == Uploads.NONE
