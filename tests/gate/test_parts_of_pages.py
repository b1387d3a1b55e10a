"""What of the pages of terminal and files changes by itself, and what stands there in any case."""

from typing import Any

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db
STOPPED = "The workspace does not run. Start it"


def page(client: Client, row: Any, part: str, **headers: str) -> str:
    answer = client.get(f"/projects/vision/workspaces/{row.short_id}/{part}/", headers=headers)
    assert answer.status_code == 200
    return str(answer.content.decode())


@pytest.mark.parametrize("part", ["terminal", "files"])
def test_whether_it_runs_is_a_part_that_is_asked_for_by_itself(
    part: str, workspace: Any, alice: Any, as_user: Any
) -> None:
    client = as_user(alice)
    whole = page(client, workspace, part)
    assert f'data-live="workspace:{workspace.uid}"' in whole
    assert 'data-running="1"' in whole
    assert STOPPED not in whole
    workspace.phase = workspace.desired = "stopped"
    workspace.save()
    alone = page(client, workspace, part, **{"HX-Request": "true"})
    assert 'data-running="0"' in alone
    assert STOPPED in alone
    assert "<html" not in alone


def start_of(row: Any) -> str:
    return f'action="/projects/vision/workspaces/{row.short_id}/start/"'


@pytest.mark.parametrize("part", ["terminal", "files"])
def test_one_that_is_stopped_is_started_there_and_offers_no_connection(
    part: str, workspace: Any, alice: Any, bob: Any, as_user: Any
) -> None:
    from work.models import Share

    assert start_of(workspace) not in page(as_user(alice), workspace, part)
    Share.objects.create(workload=workspace, user=bob)
    workspace.phase = workspace.desired = "stopped"
    workspace.save()
    assert start_of(workspace) in page(as_user(alice), workspace, part, **{"HX-Request": "true"})
    whole = page(as_user(alice), workspace, part)
    assert start_of(workspace) in whole
    assert part == "files" or 'id="terminal-connect" hidden' in whole
    # who was let in does not start it, and one that is on its way starts by itself
    assert start_of(workspace) not in page(as_user(bob), workspace, part)
    workspace.desired, workspace.generation = "running", workspace.generation + 1
    workspace.save()
    assert start_of(workspace) not in page(as_user(alice), workspace, part)


@pytest.mark.parametrize("part", ["terminal", "files"])
@pytest.mark.parametrize("phase", ["pending", "starting"])
def test_one_that_is_starting_is_not_asked_to_be_started(
    part: str, phase: str, workspace: Any, alice: Any, as_user: Any
) -> None:
    workspace.phase = phase
    workspace.save()
    alone = page(as_user(alice), workspace, part, **{"HX-Request": "true"})
    assert 'data-running="0"' in alone
    assert "This workspace is starting." in alone
    assert STOPPED not in alone


def test_the_files_page_has_its_table_ready_for_when_the_workspace_runs(
    workspace: Any, alice: Any, as_user: Any
) -> None:
    workspace.phase = workspace.desired = "stopped"
    workspace.save()
    body = page(as_user(alice), workspace, "files")
    assert '<div class="files" id="files" hidden' in body


def test_the_files_page_knows_the_zone_of_the_profile(
    workspace: Any, alice: Any, as_user: Any
) -> None:
    alice.timezone = "Asia/Tokyo"
    alice.save()
    assert 'data-zone="Asia/Tokyo"' in page(as_user(alice), workspace, "files")


def test_without_ssh_the_command_line_is_named_all_the_same(
    workspace: Any, alice: Any, as_user: Any, settings: Any
) -> None:
    settings.BERTH_SSH_PORT = 0
    body = page(as_user(alice), workspace, "terminal")
    assert f"berth workspace terminal {workspace.short_id}" in body
    assert "ssh -p" not in body
