"""Loads from a terminal: the same object as in the page, and a line that follows it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from berth_cli import following, work
from berth_cli.client import EXIT_NOT_FOUND

from tests.cli.conftest import read, told_apart
from tests.support import driving

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def machine(transactional_db: None) -> Any:
    from clusters import registry
    from notebooks.services import ensure_default_presets

    registry.reset()
    ensure_default_presets()
    yield registry.driver_for("local")
    registry.reset()


@pytest.fixture
def me(project: Any, alice: Any, token_of: Callable[[Any], str]) -> dict[str, str]:
    return {"token": token_of(alice)}


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch, machine: Any) -> list[dict[str, Any]]:
    """While the command sleeps, the world goes on: each step reports, the last one ends it."""
    from django.db import transaction

    from loaders.choices import StopReason
    from loaders.models import Load
    from loaders.reports import parse, report_store
    from runtime.hints import hint
    from tests.loaders.conftest import body_of
    from work.services.ending import request_stop

    steps: list[dict[str, Any]] = []

    def sleep(_seconds: float) -> None:
        driving.run_due()
        row = Load.objects.latest("pk")
        if not steps:
            return
        step = steps.pop(0)
        if "exit" in step or "cancelled" in step:
            if "exit" in step:
                machine.exit(str(row.uid), code=step["exit"])
            else:
                with transaction.atomic():
                    request_stop(row, reason=StopReason.CANCELLED, actor=None)
            hint(row)
            driving.run_due()
            return
        Load.objects.filter(pk=row.pk).update(reported_at=None)
        report_store(row.uid, parse(body_of(row, **step)))

    monkeypatch.setattr(work, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    return steps


def test_a_load_is_made_followed_and_done(berth: Run, me: Any, moves: list[Any]) -> None:
    moves += [{"seq": 1, "phase": "listing", "listed": False}, {"seq": 2}, {"exit": 0}]
    done = berth("loads", "create", "s3://bucket/images", "--folder", "data", "--wait", **me)
    assert done.exit_code == 0, done.output
    assert "[listing]" in done.stderr
    assert "[############............]   50 %  3/4 files, 2 KiB/3.9 KiB" in done.stderr
    assert "s3://bucket/images -> shared/data" in done.stdout
    assert "done" in done.stdout


def test_what_was_left_out_is_named_and_is_an_error(berth: Run, me: Any, moves: list[Any]) -> None:
    error = {"key": "../up", "code": "bad-key", "message": "no"}
    files = {"found": 4, "done": 3, "unchanged": 0, "skipped": 1, "failed": 0, "deleted": 0}
    moves += [{"seq": 1, "errors": [error], "files": files}, {"exit": 3}]
    done = berth("loads", "create", "gs://bucket/images", "--wait", **me)
    assert done.exit_code == 1
    assert "bad-key: ../up" in done.stderr
    shown = berth("loads", "show", "images", **me)
    assert "1 left out" in shown.stdout


def test_a_load_that_somebody_cuts_short_is_not_done(berth: Run, me: Any, moves: list[Any]) -> None:
    moves += [{"seq": 1}, {"cancelled": True}]
    done = berth("loads", "create", "s3://bucket/images", "--wait", **me)
    assert (done.exit_code, "images is cancelled" in str(done.exception)) == (5, True)
    assert "cancelled" in done.stdout
    for verb, code in (("watch", 5), ("cancel", 0)):
        wait = () if verb == "watch" else ("--wait",)
        assert berth("loads", verb, "images", *wait, **me).exit_code == code


def test_verbs_by_name_and_json_for_programs(berth: Run, me: Any) -> None:
    made = read(berth("loads", "create", "s3://bucket/a", "-o", "json", **me))
    assert made["status"]["state"] == "waiting"
    paused = read(berth("loads", "pause", "a", "-o", "json", **me))
    assert paused["desired"] == "stopped"
    assert read(berth("loads", "resume", made["id"], "-o", "json", **me))["run"] == 2
    listed = read(berth("loads", "list", "-o", "json", **me))
    assert [row["name"] for row in listed] == ["a"]
    assert berth("loads", "pause", "nothing", **me).exit_code == 4
    refused = berth("loads", "delete", "a", stdin="b\n", **me)
    assert (refused.exit_code, "nothing was deleted" in str(refused.exception)) == (2, True)
    assert berth("loads", "delete", "a", "--yes", **me).exit_code == 0


def test_what_may_change_is_changed_by_name(berth: Run, me: Any) -> None:
    rules = ("--mode", "sync", "--delete-extra", "--include", "*.jpg")
    berth("loads", "create", "s3://bucket/a", *rules, "--no-start", **me)
    change = ("loads", "edit", "a", "--no-delete-extra", "--bandwidth", "5000000")
    plan = berth(*change, "--plan", **me)
    assert (plan.exit_code, "delete_extra: yes -> " in plan.stdout) == (0, True), plan.output
    shown = read(berth("loads", "show", "a", "-o", "json", **me))["spec"]
    assert (shown["delete_extra"], shown["bandwidth_bytes_s"]) == (True, None)
    spec = read(berth(*change, "-o", "json", **me))["spec"]
    assert (spec["delete_extra"], spec["bandwidth_bytes_s"]) == (False, 5000000)
    assert (spec["mode"], spec["include"]) == ("sync", ["*.jpg"])
    refused = berth("loads", "edit", "a", **me)
    assert (refused.exit_code, str(refused.exception)) == (2, "Say what to change.")


def test_interrupted_it_goes_on_and_says_how_to_end_it(
    berth: Run, me: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    world = SimpleNamespace(sleep=interrupted, monotonic=time.monotonic)
    monkeypatch.setattr(work, "time", world)
    done = berth("loads", "create", "s3://bucket/a", "--wait", **me)
    row = read(berth("loads", "show", "a", "-o", "json", **me))
    assert f"a goes on. To end it: berth loads cancel {row['id']}" in done.stderr
    assert row["desired"] == "running"


def test_a_plan_makes_nothing(berth: Run, me: Any) -> None:
    from loaders.models import Load

    plan = berth("loads", "plan", "s3://bucket/a", "--mode", "sync", "--delete-extra", **me)
    assert plan.exit_code == 0, plan.output
    assert "Would create: a" in plan.stdout
    assert "Note: What is in the folder and not in the bucket is deleted." in plan.stdout
    assert not Load.objects.exists()


def test_a_name_that_two_credentials_have_is_not_chosen_from(
    berth: Run, me: Any, namesakes: Callable[[str], dict[str, str]]
) -> None:
    ids = namesakes(me["token"])
    for verb in ("plan", "create"):
        said = berth("loads", verb, "s3://bucket/a", "--credential", "key", **me)
        assert told_apart(said, ids), said.exception
    by_id = berth("loads", "plan", "s3://bucket/a", "--credential", ids["yours"], **me)
    assert by_id.exit_code == 0, by_id.exception


def test_a_cache_is_kept_shown_and_dropped_at_once(berth: Run, me: Any) -> None:
    asked = ("loads", "create", "s3://bucket/a", "--volume", "cache:", "-o", "json")
    assert berth(*asked, **me).exit_code != 0  # how large?
    made = read(berth(*asked, "--cache-size", "2GiB", **me))
    assert made["spec"]["volume_name"] == "cache-bucket-a"
    assert read(berth(*asked, **me))["spec"]["volume"] == made["spec"]["volume"]
    row = read(berth("volumes", "show", "cache-bucket-a", "-o", "json", **me))
    assert (row["cache_of"], row["size_limit_mib"]) == ("s3://bucket/a", 2048)
    for name in ("a", "a 2"):
        assert berth("loads", "delete", name, "--yes", **me).exit_code == 0
    refused = berth("volumes", "delete", "cache-bucket-a", stdin="b\n", **me)
    assert "for good" in refused.stderr + refused.stdout
    gone = read(berth("volumes", "delete", "cache-bucket-a", "--yes", "-o", "json", **me))
    assert (gone["desired"], gone["delete_after"]) == ("absent", None)


def test_keys_may_come_from_a_file(berth: Run, me: Any, tmp_path: Any) -> None:
    keys = tmp_path / "keys"
    keys.write_text("a/1\na/2\n")
    asked = ("loads", "create", "s3://bucket/a", "--objects-from", str(keys), "--object", "a/3")
    made = read(berth(*asked, "-o", "json", **me))
    assert made["spec"]["objects"] == ["a/3", "a/1", "a/2"]
    keys.write_bytes(b"a/\xff\n")
    refused = berth(*asked, **me)
    assert (refused.exit_code, "is not text" in str(refused.exception)) == (2, True)


def test_one_file_makes_loads_and_workspaces(berth: Run, me: Any, tmp_path: Any) -> None:
    from notebooks.models import Workspace

    made = read(berth("loads", "create", "s3://bucket/a", "-o", "json", **me))
    document = json.loads(berth("loads", "show", "a", "-o", "json", **me).stdout)
    assert document["id"] == made["id"]
    file = tmp_path / "both.yaml"
    spec = {"url": "s3://bucket/b", "folder": "x", "credential": None}
    meta = {"name": "b", "project": "vision"}
    head = {"apiVersion": "berth.dev/v1", "metadata": meta}
    documents = [{**head, "kind": "Load", "spec": spec}, {**head, "kind": "Workspace", "spec": {}}]
    file.write_text(yaml.safe_dump_all(documents))
    done = berth("apply", "-f", str(file), **me)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "s3://bucket/b -> shared/x" in done.stdout
    assert Workspace.objects.filter(name="b").exists()


def test_a_project_in_a_document_is_of_that_document_only(
    berth: Run, me: Any, alice: Any, tmp_path: Any
) -> None:
    from loaders.models import Load
    from projects.models import Membership, Project
    from volumes.services.create import project_volume_ensure

    other = Project.objects.create(slug="other", name="Other", phase="running")
    Membership.objects.create(project=other, user=alice, role="owner")
    project_volume_ensure(principal=None, project=other)
    file = tmp_path / "two.yaml"
    head = {"apiVersion": "berth.dev/v1", "kind": "Load"}
    documents = [
        {**head, "metadata": {"name": "x", "project": "other"}, "spec": {"url": "s3://bucket/x"}},
        {**head, "metadata": {"name": "y"}, "spec": {"url": "s3://bucket/y"}},
    ]
    file.write_text(yaml.safe_dump_all(documents))
    done = berth("apply", "-f", str(file), "--project", "vision", **me)
    assert done.exit_code == 0, (done.output, done.exception)
    made = dict(Load.objects.values_list("name", "project__slug"))
    assert made == {"x": "other", "y": "vision"}


def test_a_log_is_printed_harmlessly_and_followed_to_its_last_words(
    berth: Run, me: Any, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from loaders.models import Load
    from runtime.hints import hint

    berth("loads", "create", "s3://bucket/images", **me)
    driving.run_due()
    row = Load.objects.get()
    machine.write_log(str(row.uid), "\x1b[2Jlisting\n")

    def sleep(_seconds: float) -> None:
        machine.write_log(str(row.uid), "its last words\n")
        machine.exit(str(row.uid), code=4)
        hint(row)
        driving.run_due()

    world = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr(following, "time", world)
    done = berth("loads", "logs", "images", **me)
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith("[2Jlisting\n")
    assert "\x1b" not in done.stdout
    done = berth("loads", "logs", "images", "--follow", **me)
    assert done.stdout.endswith("listing\nits last words\n")
    again = berth("loads", "logs", "images", "--run", "1", **me)
    assert again.stdout == done.stdout
    assert berth("loads", "logs", "images", "--run", "7", **me).exit_code == EXIT_NOT_FOUND
