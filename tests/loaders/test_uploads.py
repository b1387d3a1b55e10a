"""Parts that an export left at the store: one more run gives them up, and only when it must."""

from typing import Any

import pytest

from common.clock import now
from events.models import Event
from loaders import services
from loaders.choices import State, Uploads
from loaders.models import Load
from loaders.services import uploads
from loaders.specs import plan_of
from loaders.states import state_of


@pytest.fixture
def export(load: Any, alice: Any) -> Any:
    return lambda: load(alice, "s3://bucket/out", direction="out")


def cancelled(row: Any, settle: Any, principal: Any) -> Any:
    services.load_cancel(principal=principal(row.owner), load=row)
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
    services.load_pause(principal=principal(row.owner), load=row)
    assert (settle(row).uploads, row.launch) == (Uploads.OPEN, 1)
    cancelled(row, settle, principal)
    assert end(row, 0).uploads == Uploads.NONE
    assert state_of(row) == State.CANCELLED


def test_a_removed_export_goes_when_its_parts_are_gone(export, settle, principal, end):
    row = settle(export())
    services.load_delete(principal=principal(row.owner), load=row)
    assert state_of(settle(row)) == State.DELETING
    assert row.deleted_at is None
    end(row, 0)
    assert row.deleted_at is not None
    assert [run.result for run in row.runs.all()] == ["cancelled"]


def test_what_was_sent_whole_leaves_nothing_to_give_up(export, settle, principal, end):
    row = end(settle(export()), 0)
    assert row.uploads == Uploads.NONE
    services.load_delete(principal=principal(row.owner), load=row)
    assert settle(row).deleted_at is not None
    assert row.launch == 1


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
    services.load_start(principal=principal(row.owner), load=row)
    settle(row, horizon_s=30)
    assert (row.uploads, row.launch, row.phase) == (Uploads.OPEN, 3, "running")
    assert plan_of(row, None)["mode"] == "copy"
    assert end(row, 0).result == "done"
