"""What is told of a workspace, and why one does not open."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from berth_cli import following, work
from berth_cli.client import EXIT_UNREACHABLE, ApiError, Client
from berth_cli.output import moment

from tests.cli.conftest import read, told_apart
from tests.notebooks.cluster_world import attach
from tests.support import driving

pytestmark = pytest.mark.django_db(transaction=True)
CONTAINER = ("--kind", "container", "--image", "team/app:1", "--cluster", "gpu")


@pytest.fixture
def world(project, db, monkeypatch):
    from clusters import registry
    from notebooks.services import ensure_default_presets

    registry.reset()
    ensure_default_presets()
    attach(monkeypatch)
    yield
    registry.reset()


@pytest.fixture
def ann(berth, token_of, alice, world):
    token = token_of(alice)
    return lambda *args: berth(*args, token=token)


def _launched(ann, world, name, *words):
    made = ann("workspace", "launch", "jupyterlab", "--name", name, *CONTAINER, *words)
    assert made.exit_code == 0, made.exception
    driving.run_due()


@pytest.fixture
def meanwhile(monkeypatch):
    """Each time the command sleeps the workspace comes into the next of these states."""
    from django.db.models import F

    from notebooks.models import Workspace

    states: list[dict[str, Any]] = []
    at = [time.monotonic()]

    def sleep(seconds: float) -> None:
        at[0] += seconds
        if states:
            Workspace.objects.update(**states.pop(0), observed_generation=F("generation"))

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: at[0])
    monkeypatch.setattr(work, "time", clock)
    return states


LAUNCH = ("workspace", "launch", "jupyterlab", "--name", "big", *CONTAINER, "--wait")


def _told_of(ann):
    status = read(ann("workspace", "show", "big", "-o", "json"))["status"]
    assert status["message"]
    assert status["advice"]
    return status


def test_who_waits_in_vain_is_told_why_and_what_to_do(ann, meanwhile):
    meanwhile += [{"phase": "pending", "reason": "nodes-full", "message": "None of 34 nodes."}]
    said = ann(*LAUNCH, "--timeout", "1")
    status = _told_of(ann)
    both = f"{status['message']} {status['advice']}"
    assert said.exit_code == 6
    assert said.stderr.count(f"pending: {both}") == 1  # while it waits
    assert str(said.exception) == f"Still pending after 1 s; it goes on. {both}"


def test_what_failed_while_one_waited_says_why_and_what_to_do_once(ann, meanwhile):
    meanwhile += [{"phase": "failed", "reason": "oom", "message": ""}]
    said = ann(*LAUNCH)
    status = _told_of(ann)
    assert said.exit_code == 1
    assert "failed\n" in said.stderr
    assert status["message"] not in said.stderr
    assert str(said.exception) == f"big failed: {status['message']} {status['advice']}"


def test_who_is_in_one_project_only_goes_on_waiting_while_the_portal_is_away(
    ann, meanwhile, monkeypatch
):
    asked: list[str] = []
    get = Client.get

    def away_for_once(client: Client, path: str, **params: Any) -> Any:
        asked.append(path)
        if len(asked) == 2:  # the first asks which project
            raise ApiError("it can't be reached", EXIT_UNREACHABLE)
        return get(client, path, **params)

    monkeypatch.setattr(Client, "get", away_for_once)
    monkeypatch.setattr(following, "_AGAIN_S", 0.01)
    meanwhile += [{"phase": "pending"}, {"phase": "running"}]
    said = ann(*LAUNCH)
    assert said.exit_code == 0, said.exception
    assert asked.count("projects") == 1


def test_a_container_without_a_page_says_how_one_gets_in(ann, world):
    _launched(ann, world, "worker")
    said = ann("workspace", "open", "worker", "--print")
    assert said.exit_code == 5
    assert "has no page. Use: berth workspace terminal" in str(said.exception)


def test_a_workspace_of_somebody_else_is_not_opened(ann, world, berth, token_of, bob):
    _launched(ann, world, "hers", "--port", "7860:demo")
    assert ann("workspace", "open", "hers", "--print").exit_code == 0
    (row,) = read(ann("workspace", "list", "-o", "json"))
    said = berth("workspace", "open", row["id"], "--print", token=token_of(bob))
    assert said.exit_code == 4
    assert "only alice" in str(said.exception)


def test_a_name_that_two_credentials_have_is_not_chosen_from(
    ann, world, namesakes, token_of, alice
):
    ids = namesakes(token_of(alice))
    asked = ("workspace", "launch", "jupyterlab", *CONTAINER, "--credential")
    for more in ((), ("--plan",)):
        said = ann(*asked, "key", *more)
        assert told_apart(said, ids), said.exception
    alone = ann(*asked, "other", "-o", "json")
    assert [row["id"] for row in read(alone)["spec"]["credentials"]] == [ids["other"]]
    by_id = ann(*asked, ids["yours"], "-o", "json")
    assert [row["id"] for row in read(by_id)["spec"]["credentials"]] == [ids["yours"]]
    missing = ann(*asked, "nothing")
    assert (missing.exit_code, "--credential" in str(missing.exception)) == (2, False)


def test_what_may_change_is_changed_by_name(ann, world):
    _launched(ann, world, "app", "--port", "7860:demo", "--gpus", "1", "--gpu", "h100-80")
    change = ("workspace", "edit", "app", "--memory", "8G", "--no-ports", "--gpu", "any")
    plan = ann(*change, "--plan")
    assert plan.exit_code == 0, plan.exception
    assert "memory_mib: 4096 -> 8192" in plan.stdout
    row = read(ann("workspace", "show", "app", "-o", "json"))
    assert (row["launch"], row["spec"]["memory_mib"]) == (1, 4096)
    row = read(ann(*change, "-o", "json"))
    assert (row["launch"], row["spec"]["memory_mib"]) == (2, 8192)
    assert (row["spec"]["ports"], row["spec"]["gpu_flavor"]) == ([], "")
    refused = ann("workspace", "edit", "app")
    assert (refused.exit_code, str(refused.exception)) == (2, "Say what to change.")
    assert ann("workspace", "edit", "app", "--cluster", "local").exit_code == 2  # chosen once


def test_deleting_waits_until_it_is_gone(ann, world, monkeypatch):
    _launched(ann, world, "app")

    def sleep(_seconds: float) -> None:
        driving.run_due()

    monkeypatch.setattr(work, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    done = ann("workspace", "delete", "app", "--yes", "--wait")
    assert done.exit_code == 0, done.exception
    assert done.stderr.splitlines()[-1] == "deleted"
    assert "STATE:   deleted\n" in done.stdout


def test_show_tells_where_it_runs_what_runs_and_each_port(ann, world):
    _launched(ann, world, "app", "--port", "7860:demo", "--port", "9000:admin")
    said = ann("workspace", "show", "app").stdout
    status = read(ann("workspace", "show", "app", "-o", "json"))["status"]
    assert "gpu" in said
    assert "team/app:1" in said
    for port in status["ports"]:
        assert f"{port['name']} {port['url']}" in said


def test_the_project_and_the_portal_may_be_said_after_every_command(
    ann, world, berth, token_of, alice, live_server, monkeypatch
):
    _launched(ann, world, "app", "--port", "7860:demo")
    monkeypatch.delenv("BERTH_URL")
    said = ("-p", "vision", "--server", live_server.url)
    for words in (("open", "app", "--print"), ("logs", "app")):
        done = berth("workspace", *words, *said, token=token_of(alice))
        assert done.exit_code == 0, done.exception


@pytest.fixture
def zone(monkeypatch):
    """Set the zone of this machine's clock."""

    def choose(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield choose
    monkeypatch.undo()
    time.tzset()


def test_times_are_told_by_the_clock_of_whoever_reads_a_table(ann, world, zone):
    made = read(ann("token", "create", "ci", "--days", "7", "-o", "json"))
    for name, told in (("UTC", "2026-11-23 22:05"), ("Asia/Tokyo", "2026-11-24 07:05")):
        zone(name)
        assert moment("2026-11-23T22:05:06.123456Z") == told
        assert str(moment(made["expires_at"])) in ann("token", "list").stdout
    (row,) = [r for r in read(ann("token", "list", "-o", "json")) if r["name"] == "ci"]
    assert row["expires_at"] == made["expires_at"]
    assert moment(None) is None


def test_waiting_goes_on_while_the_portal_is_away_and_says_so_once(capsys, monkeypatch):
    answers: list[Any] = [ApiError("it can't be reached", EXIT_UNREACHABLE)] * 3
    monkeypatch.setattr(following, "_AGAIN_S", 0.01)

    def ask() -> str:
        if answers:
            raise answers.pop()
        return "here"

    assert following.patiently(ask, deadline=time.monotonic() + 60) == "here"
    assert capsys.readouterr().err.splitlines() == ["it can't be reached; trying again."]


def test_waiting_for_a_portal_ends(monkeypatch):
    monkeypatch.setattr(following, "_AGAIN_S", 0.01)
    client = Client("http://127.0.0.1:9")
    with pytest.raises(ApiError) as said:
        following.patiently(lambda: client.get("me"), deadline=time.monotonic() + 0.2)
    assert said.value.exit_code == EXIT_UNREACHABLE
    monkeypatch.setattr(following, "PATIENCE_S", 0.2)
    with pytest.raises(ApiError):
        following.patiently(lambda: client.get("me"), deadline=time.monotonic() + 600)


def test_a_call_by_a_name_is_no_refusal_in_the_audit_log(berth, alice, token_of, world):
    """Somebody who looks for attacks there would find each use of the command line."""
    from events.models import Event

    token = token_of(alice)
    words = ("launch", "--name", "lab", "-p", "vision", "-o", "json")
    made = read(berth("workspace", *words, token=token))
    for name, code in (("lab", 0), (made["id"], 0), ("nothing", 4)):
        shown = berth("workspace", "show", name, "-p", "vision", token=token)
        assert shown.exit_code == code, name
    assert not Event.objects.filter(verb="access.not-found").exists()


def test_what_was_just_asked_for_is_told_as_on_its_way(ann, world):
    _launched(ann, world, "a")
    said = ann("workspace", "stop", "a")
    assert said.exit_code == 0
    assert "STATE:   stopping\n" in said.output


def test_a_plan_says_values_as_people_write_them(ann, world):
    said = ann("workspace", "launch", "jupyterlab", "--name", "a", *CONTAINER, "--plan")
    assert said.exit_code == 0, said.exception
    assert "None" not in said.output
    assert "[]" not in said.output
    assert "\n  memory_mib: 4096\n" in said.output


def test_a_list_has_sizes_and_ages_and_memory_is_said_in_the_pages_units(ann, world):
    _launched(ann, world, "a", "--memory", "2G")
    row = read(ann("workspace", "show", "a", "-o", "json"))
    assert row["spec"]["memory_mib"] == 2048
    said = ann("workspace", "list").output
    assert "AGE" in said
    assert "2 GiB" in said
