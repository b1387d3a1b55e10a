"""Launch, stop, resume, edit, delete: rows in, engine driven, rows out."""

import pytest
from django.utils import translation

from common.errors import Conflict, Forbidden, Invalid, LimitExceeded
from notebooks.models import Workspace
from runtime.models import Route
from tests.support import workspaces
from work import services
from work.models import Step


def test_one_press_starts_a_workspace_and_needs_no_field(launch, alice, settle):
    row = settle(launch(alice))
    assert (row.phase, row.name, row.launch) == ("running", "JupyterLab", 1)
    assert row.ready_at is not None
    assert Route.objects.filter(uid=row.uid).exists()


def test_names_are_made_from_the_preset_and_counted(launch, alice, bob):
    assert [launch(alice).name for _ in range(3)] == ["JupyterLab", "JupyterLab 2", "JupyterLab 3"]
    assert launch(bob).name == "JupyterLab"


def test_one_home_serves_all_workspaces_of_a_person_in_a_project(launch, alice, bob):
    first, second, other = launch(alice), launch(alice), launch(bob)
    assert first.home_id == second.home_id
    assert other.home_id != first.home_id


def test_the_timeline_tells_every_step_once_and_in_order(launch, alice, settle):
    row = settle(launch(alice))
    settle(row)
    words = list(Step.objects.filter(workload=row, launch=1).values_list("word", flat=True))
    assert words[0] == "accepted"
    assert words[-1] == "running"
    assert len(words) == len(set(words))


def test_the_timeline_tells_in_the_readers_language_why_a_pod_was_replaced(launch, alice, settle):
    row = settle(launch(alice))
    again = Step(workload=row, launch=1, word="restarted", message="evicted", at=row.ready_at)
    assert "started again elsewhere" in again.shown_message
    with translation.override("ja"):
        assert not again.shown_message.isascii()
    assert Step(word="restarted", message="").shown_message == ""


def test_stop_keeps_the_row_and_resume_brings_it_back_at_the_same_address(
    launch, alice, settle, principal
):
    row = settle(launch(alice))
    address = row.short_id
    workspaces.workspace_stop(principal=principal(alice), workspace=row)
    settle(row)
    assert (row.phase, row.reason) == ("stopped", "user")
    assert not Route.objects.filter(uid=row.uid).exists()
    workspaces.workspace_resume(principal=principal(alice), workspace=row)
    settle(row)
    assert (row.phase, row.launch, row.short_id) == ("running", 2, address)


def test_resuming_twice_starts_it_once(launch, alice, settle, principal):
    row = settle(launch(alice))
    workspaces.workspace_stop(principal=principal(alice), workspace=row)
    settle(row)
    workspaces.workspace_resume(principal=principal(alice), workspace=row)
    workspaces.workspace_resume(principal=principal(alice), workspace=row)
    row.refresh_from_db()
    assert row.launch == 2


def test_a_new_size_restarts_a_running_workspace(launch, alice, settle, principal):
    row = settle(launch(alice))
    workspaces.workspace_edit(principal=principal(alice), workspace=row, said={"memory_mib": 6144})
    settle(row)
    assert (row.phase, row.launch, row.memory_mib) == ("running", 2, 6144)


def test_a_new_name_does_not_restart_anything(launch, alice, settle, principal):
    row = settle(launch(alice))
    workspaces.workspace_edit(principal=principal(alice), workspace=row, said={"name": "Thesis"})
    settle(row)
    assert (row.name, row.launch, row.phase) == ("Thesis", 1, "running")


def test_delete_needs_the_typed_name_and_keeps_the_home(launch, alice, settle, principal):
    row = settle(launch(alice))
    with pytest.raises(Invalid):
        workspaces.workspace_delete(principal=principal(alice), workspace=row, typed_name="no")
    workspaces.workspace_delete(principal=principal(alice), workspace=row, typed_name="JupyterLab")
    settle(row)
    assert row.deleted_at is not None
    row.home.refresh_from_db()
    assert row.home.deleted_at is None


def test_the_name_of_a_deleted_workspace_is_free_again(launch, alice, principal):
    row = launch(alice)
    workspaces.workspace_delete(principal=principal(alice), workspace=row)
    assert launch(alice).name == "JupyterLab"


def test_a_manager_may_stop_but_not_change_what_is_not_his(launch, bob, mona, principal):
    row = launch(bob)
    with pytest.raises(Forbidden):
        workspaces.workspace_edit(principal=principal(mona), workspace=row, said={"name": "x"})
    workspaces.workspace_stop(principal=principal(mona), workspace=row, said="its turn")
    row.refresh_from_db()
    assert (row.desired, row.stop_reason) == ("stopped", "manager")


def test_a_member_may_not_stop_what_is_not_his(launch, alice, bob, principal):
    row = launch(alice)
    with pytest.raises(Forbidden):
        workspaces.workspace_stop(principal=principal(bob), workspace=row)


def test_a_viewer_may_not_launch(launch, vera):
    with pytest.raises(Forbidden):
        launch(vera)
    assert not Workspace.objects.exists()


def test_nothing_starts_in_an_archived_project(launch, alice, project):
    from common.clock import now

    project.archived_at = now()
    project.save()
    with pytest.raises(Conflict):
        launch(alice)


def test_a_limit_refuses_in_the_transaction_of_the_launch(
    launch, alice, project, operator, principal, settle
):
    from quotas.services import limits_set

    limits_set(principal=principal(operator), project=project, limits={"workspaces": 1})
    row = launch(alice)
    with pytest.raises(LimitExceeded):
        launch(alice)
    assert Workspace.objects.count() == 1
    workspaces.workspace_stop(principal=principal(alice), workspace=row)
    settle(row)
    assert launch(alice).pk


def test_extending_moves_the_end_as_far_as_the_preset_allows(launch, alice, settle, principal):
    row = settle(launch(alice, "large"))
    before = row.ends_at
    services.workload_extend(principal=principal(alice), row=row, minutes=60)
    settle(row)
    assert (row.ends_at - before).total_seconds() == 3600
    with pytest.raises(Conflict, match="2340"):
        services.workload_extend(principal=principal(alice), row=row, minutes=2341)


def test_a_workspace_that_is_being_deleted_cannot_be_resumed(launch, alice, principal):
    row = launch(alice)
    workspaces.workspace_delete(principal=principal(alice), workspace=row)
    with pytest.raises(Conflict):
        workspaces.workspace_resume(principal=principal(alice), workspace=row)


def test_a_disabled_owner_has_nothing_running_and_nothing_shared(
    launch, alice, bob, operator, settle, principal
):
    from accounts.services.people import user_disable

    mine, shared = settle(launch(bob)), launch(alice)
    services.workload_share(principal=principal(alice), row=shared, username="bob")
    user_disable(who=principal(operator), user=bob)
    settle(mine)
    assert (mine.phase, mine.stop_reason) == ("stopped", "owner-disabled")
    assert not shared.shares.exists()
