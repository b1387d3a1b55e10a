"""Loads from rows to runs to results: the engine driven, the machine fake."""

import pytest

from accounts.principal import Principal
from common.errors import Conflict, Forbidden, Invalid, LimitExceeded
from loaders import services
from loaders.choices import State
from loaders.models import Load, LoadRun
from loaders.states import state_of
from work import services as work


def test_one_press_starts_a_load_in_the_project_s_volume(load, alice, settle, shared):
    row = load(alice)
    assert state_of(row) == State.WAITING
    settle(row)
    assert (row.phase, row.volume, row.name) == ("running", shared, "images")
    assert state_of(row) == State.STARTING


@pytest.mark.parametrize(
    ("code", "state"), [(0, "done"), (3, "partial"), (4, "failed"), (5, "failed"), (1, "failed")]
)
def test_the_exit_code_decides_when_no_report_ever_came(load, alice, settle, end, code, state):
    row = end(settle(load(alice)), code)
    # what was interrupted goes on by itself (test_retries.py)
    assert state_of(row) == (State.WAITING if code == 5 else state)
    assert row.runs.get().result == state
    assert (row.loaded_at is not None) == (state == "done")


def test_the_last_report_says_why_and_the_history_keeps_what_was_counted(
    load, alice, settle, report, end
):
    row = settle(load(alice))
    said = {"exit": 4, "code": "no-bucket", "message": "bucket", "manifest": ""}
    assert report(row, 7, final=said, phase="ended").json() == {"kept": True}
    end(row, 4)
    assert (row.result, row.result_code) == ("failed", "no-bucket")
    run = row.runs.get()
    assert (run.files_done, run.bytes_read, run.code) == (2, 2100, "no-bucket")


def test_a_machine_that_vanished_after_the_last_report_keeps_the_result(
    load, alice, settle, report, fake
):
    row = settle(load(alice))
    report(row, 9, final={"exit": 0, "code": "done", "message": "", "manifest": "m.jsonl"})
    fake.vanish(str(row.uid))
    settle(row, horizon_s=1000)
    assert (row.result, row.manifest) == ("done", "m.jsonl")


def test_a_killed_load_fails_in_words_and_resumes_as_the_next_launch(
    load, alice, settle, end, principal
):
    row = end(settle(load(alice)), -9, reason="killed")
    assert (row.result, row.result_code) == ("failed", "killed")
    services.load_resume(principal=principal(alice), row=row)
    settle(row)
    assert (row.launch, row.phase, row.result) == (2, "running", "")


def test_pause_and_resume_go_on_with_the_same_task(load, alice, settle, principal, end):
    row = end(settle(load(alice)), 0)
    services.load_verify(principal=principal(alice), row=row)
    settle(row)
    work.workload_stop(principal=principal(alice), row=row)
    settle(row)
    assert state_of(row) == State.PAUSED
    assert row.runs.first().result == "paused"
    services.load_resume(principal=principal(alice), row=row)
    settle(row)
    assert (row.launch, row.task, row.phase) == (3, "verify", "running")


def test_what_was_done_a_moment_before_the_pause_is_done(
    load, alice, settle, principal, report, fake
):
    row = settle(load(alice))
    report(row, 3, final={"exit": 0, "code": "done", "message": "", "manifest": ""})
    work.workload_stop(principal=principal(alice), row=row)
    settle(row)
    assert state_of(row) == State.DONE


def test_cancel_ends_what_runs_and_what_is_paused(load, alice, settle, principal):
    row = settle(load(alice))
    services.load_cancel(principal=principal(alice), row=row)
    row.refresh_from_db()
    assert state_of(row) == State.CANCELLING
    assert state_of(settle(row)) == State.CANCELLED
    other = settle(load(alice, "s3://bucket/b"))
    work.workload_stop(principal=principal(alice), row=other)
    settle(other)
    services.load_cancel(principal=principal(alice), row=other)
    assert state_of(settle(other)) == State.CANCELLED


def test_what_is_over_can_t_be_paused_or_cancelled(load, alice, settle, end, principal):
    row = end(settle(load(alice)))
    for act in (work.workload_stop, services.load_cancel):
        with pytest.raises(Conflict):
            act(principal=principal(alice), row=row)


def test_a_second_press_changes_nothing(load, alice, settle, principal):
    row = settle(load(alice))
    services.load_start(principal=principal(alice), row=row)
    row.refresh_from_db()
    assert row.launch == 1


def test_a_dry_run_shows_count_size_and_time_and_one_press_starts_it(
    load, alice, settle, report, end, principal
):
    row = settle(load(alice, task="dry-run"))
    report(row, 2, final={"exit": 0, "code": "done", "message": "", "manifest": ""}, eta_s=90)
    end(row, 0)
    assert row.dry_run["files"] == 4
    assert (row.dry_run["bytes"], row.dry_run["seconds"]) == (4000, 90)
    assert row.loaded_at is None
    services.load_start(principal=principal(alice), row=row)
    settle(row)
    assert (row.task, row.launch) == ("load", 2)


def test_only_what_failed_is_tried_again(load, alice, settle, report, end, principal):
    row = settle(load(alice))
    with pytest.raises(Conflict):
        services.load_retry_failed(principal=principal(alice), row=end(row, 0))
    services.load_start(principal=principal(alice), row=row)
    settle(row)
    files = {"found": 4, "done": 3, "unchanged": 0, "skipped": 0, "failed": 1, "deleted": 0}
    report(row, 1, files=files, final={"exit": 3, "code": "partial", "message": ""})
    end(row, 3)
    services.load_retry_failed(principal=principal(alice), row=row)
    settle(row)
    assert row.task == "retry"


def test_an_old_launch_s_end_says_nothing_of_a_new_one(load, alice, settle, end, principal):
    row = end(settle(load(alice)), 4)
    services.load_start(principal=principal(alice), row=row)
    row.refresh_from_db()
    assert state_of(row) == State.WAITING
    settle(row)
    assert [run.result for run in LoadRun.objects.order_by("launch")] == ["failed", ""]


def test_an_engine_that_can_t_reach_the_machine_ends_no_run(
    load, alice, settle, end, fake, principal
):
    row = end(settle(load(alice)), 4)
    fake.fail("ensure", "unreachable", times=-1)
    services.load_start(principal=principal(alice), row=row)
    settle(row)
    assert row.runs.first().result == ""
    assert state_of(row) == State.WAITING
    fake.heal()
    settle(row, horizon_s=1000)
    assert row.phase == "running"


def test_delete_needs_the_typed_name_and_touches_no_volume(load, alice, settle, principal, shared):
    row = settle(load(alice))
    with pytest.raises(Invalid):
        work.workload_delete(principal=principal(alice), row=row, typed_name="no")
    work.workload_delete(principal=principal(alice), row=row, typed_name="images")
    settle(row)
    assert row.deleted_at is not None
    assert row.runs.get().result == "cancelled"
    shared.refresh_from_db()
    assert shared.deleted_at is None


def test_the_limits_of_the_project_hold_for_loads(
    load, alice, project, operator, principal, settle
):
    from quotas.selectors import held_by
    from quotas.services import limits_set

    row = settle(load(alice))
    assert held_by(row.uid) == {"cpu_milli": 1000, "memory_mib": 512}
    services.load_cancel(principal=principal(alice), row=row)
    settle(row)
    assert held_by(row.uid) == {}
    limits_set(principal=principal(operator), project=project, limits={"cpu_milli": 500})
    with pytest.raises(LimitExceeded):
        load(alice, "s3://bucket/b")
    assert Load.objects.count() == 1


def test_a_manager_ends_loads_of_others_and_a_member_does_not(
    load, alice, bob, mona, settle, principal
):
    row = settle(load(alice))
    with pytest.raises(Forbidden):
        work.workload_stop(principal=principal(bob), row=row)
    work.workload_stop(principal=principal(mona), row=row, said="its turn")
    assert state_of(settle(row)) == State.PAUSED
    services.load_resume(principal=principal(mona), row=row)
    assert settle(row).owner == alice


def test_an_operator_ends_but_never_starts(load, alice, operator, settle, principal):
    row = settle(load(alice))
    work.workload_stop(principal=principal(operator), row=row, said="its turn")
    settle(row)
    with pytest.raises(Forbidden):
        services.load_resume(principal=principal(operator), row=row)


def test_the_same_source_version_and_target_is_one_load(load, alice, bob, project, principal):
    first = load(alice, "s3://bucket/set", folder="data")
    wanted = {"url": "s3://bucket/set", "folder": "data"}
    ask = {"principal": principal(bob), "project": project}
    assert services.load_ensure(**ask, said=wanted) == first
    other = {"url": "s3://bucket/set", "folder": "data", "version": "2"}
    assert services.load_ensure(**ask, said=other) != first
    assert Load.objects.count() == 2


def test_a_shared_load_that_failed_is_started_by_who_may_and_made_anew_by_others(
    load, alice, bob, mona, project, settle, end
):
    row = end(settle(load(alice, "s3://bucket/set")), 4)
    wanted = {"url": "s3://bucket/set"}
    mine = services.load_ensure(principal=Principal(user=bob), project=project, said=wanted)
    assert (mine == row, mine.owner, mine.name) == (False, bob, "set 2")
    theirs = services.load_ensure(principal=Principal(user=mona), project=project, said=wanted)
    assert (theirs, theirs.launch) == (row, 2)


def test_a_full_volume_takes_no_load(load, alice, shared):
    type(shared).objects.filter(pk=shared.pk).update(size_limit_mib=1, used_bytes=2**20)
    with pytest.raises(Conflict, match="full"):
        load(alice)


def test_a_volume_that_is_being_deleted_takes_no_load(load, alice, shared, settle, end, principal):
    row = end(settle(load(alice)))
    type(shared).objects.filter(pk=shared.pk).update(desired="absent")
    with pytest.raises(Conflict, match="deleted"):
        services.load_start(principal=principal(alice), row=row)
