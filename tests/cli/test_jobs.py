"""Jobs from a terminal: run, followed to their end, which is then the command's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from berth_cli import following, work

from tests.cli.conftest import read, told_apart
from tests.support import driving

pytestmark = pytest.mark.django_db(transaction=True)
Run = Callable[..., Any]
PROGRAM = ("--", "python", "train.py", "--epochs", "3")


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
def ends(monkeypatch: pytest.MonkeyPatch, machine: Any) -> list[Any]:
    """While a command sleeps the world goes on: each entry is done once the job runs.

    A number ends its program so; text is written by replica 0, (n, text) by another.
    """
    from jobs.models import Job
    from runtime.hints import hint

    steps: list[Any] = []

    def sleep(_seconds: float) -> None:
        driving.run_due()
        row = Job.objects.latest("pk")
        if row.phase != "running" or not steps:
            return
        step = steps.pop(0)
        if isinstance(step, int):
            machine.exit(str(row.uid), code=step)
            hint(row)
            driving.run_due()
        else:
            machine.write_log(str(row.uid), step)

    world = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr(work, "time", world)
    monkeypatch.setattr(following, "time", world)
    return steps


def test_a_job_is_run_followed_and_done(berth: Run, me: Any, ends: list[Any]) -> None:
    ends += [0]
    done = berth("job", "run", "--name", "train", "--cpu", "1.5", "--wait", *PROGRAM, **me)
    assert done.exit_code == 0, (done.output, done.exception)
    assert done.stderr.splitlines()[0].startswith("queued")
    assert done.stderr.splitlines()[-1] == "succeeded"
    assert "train" in done.stdout
    row = read(berth("job", "show", "train", "-o", "json", **me))
    assert row["spec"]["command"] == ["python", "train.py", "--epochs", "3"]
    assert (row["spec"]["cpu_milli"], row["exit_code"]) == (1500, 0)


def test_without_two_dashes_the_first_word_begins_the_command(berth: Run, me: Any) -> None:
    words = ("python", "-m", "train", "--wait", "-p", "1")
    made = read(berth("job", "run", "-o", "json", "--retries", "1", *words, **me))
    assert made["spec"]["command"] == list(words)
    assert made["spec"]["retries"] == 1


@pytest.mark.parametrize("code", [3, 5, 137])
@pytest.mark.parametrize("how", ["--wait", "--follow"])
def test_its_own_end_is_that_of_the_command(
    code: int, how: str, berth: Run, me: Any, ends: list[Any]
) -> None:
    ends += [code]
    done = berth("job", "run", "--name", "train", how, *PROGRAM, **me)
    assert done.exit_code == code
    assert str(done.exception).startswith("train failed: ")
    assert str(code) in str(done.exception)


def test_its_log_is_printed_as_lines_come_and_nothing_else(
    berth: Run, me: Any, ends: list[Any]
) -> None:
    ends += ["epoch 1\n", "\x1b[2Jepoch 2\n", 0]
    done = berth("job", "run", "--follow", *PROGRAM, **me)
    assert done.exit_code == 0, (done.output, done.exception)
    own = done.stdout.splitlines()[1:]  # the machine itself says that it starts
    assert own == ["epoch 1", "[2Jepoch 2"]
    assert done.stderr.splitlines()[-1] == "succeeded"


def test_runs_of_one_job_and_of_all(berth: Run, me: Any, ends: list[Any]) -> None:
    for name in ("first", "second"):
        ends += [0]
        assert berth("job", "run", "--name", name, "--wait", *PROGRAM, **me).exit_code == 0
    told = read(berth("job", "runs", "-o", "json", **me))
    assert [(one["name"], one["how"]) for one in told] == [
        ("second", "succeeded"),
        ("first", "succeeded"),
    ]
    assert "second" in berth("job", "runs", **me).stdout
    (one,) = read(berth("job", "runs", "first", "-o", "json", **me))
    assert one["run"] == 1


def test_the_log_of_each_replica_while_it_runs_and_afterwards(
    berth: Run, me: Any, ends: list[Any], machine: Any
) -> None:
    from jobs.models import Job

    made = read(berth("job", "run", "--replicas", "2", "-o", "json", *PROGRAM, **me))
    driving.run_due()
    uid = str(Job.objects.get().uid)
    machine.write_log(uid, "of the first\n")
    machine.write_log(uid, "of the second\n", replica=1)
    asked = ("job", "logs", made["id"], "--replica")
    assert berth(*asked, "1", **me).stdout.endswith("of the second\n")
    ends += ["its last words\n", 0]
    followed = berth(*asked, "0", "-f", **me).stdout
    assert followed.endswith("of the first\nits last words\n")
    assert "of the second" not in followed
    assert berth(*asked, "1", **me).stdout.endswith("of the second\n")
    refused = berth(*asked, "2", **me)
    assert (refused.exit_code, "no replica 2" in str(refused.exception)) == (4, True)


def test_shown_it_says_how_each_replica_ended(
    berth: Run, me: Any, ends: list[Any], machine: Any
) -> None:
    berth("job", "run", "--name", "train", "--replicas", "2", *PROGRAM, **me)
    ends += [9]
    assert berth("job", "cancel", "nothing", **me).exit_code == 4
    driving.run_due()
    work.time.sleep(0)
    shown = berth("job", "show", "train", **me)
    assert shown.exit_code == 0, shown.exception
    lines = shown.stdout.splitlines()
    assert any(line.split()[:2] == ["STATE:", "failed"] for line in lines)
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["REPLICA", "ROLE", "STATE", "EXIT", "NODE", "RESTARTS", "REASON"]
    assert [line.split()[0] for line in table[1:]] == ["0", "1"]
    assert "9" in table[1].split()


def test_cancelled_started_again_and_deleted_by_name(berth: Run, me: Any, ends: list[Any]) -> None:
    made = read(berth("job", "run", "--name", "long", "-o", "json", *PROGRAM, **me))
    driving.run_due()
    done = berth("job", "cancel", "long", "--wait", **me)
    assert done.exit_code == 0, done.exception
    assert "cancelled" in done.stdout
    ends += [0]
    again = berth("job", "start", made["id"], "--wait", "-o", "json", **me)
    assert (again.exit_code, read(again)["launch"]) == (0, 2)
    listed = read(berth("job", "list", "--state", "succeeded", "-o", "json", **me))
    assert [row["name"] for row in listed] == ["long"]
    assert read(berth("job", "list", "--state", "failed", "-o", "json", **me)) == []
    refused = berth("job", "delete", "long", stdin="short\n", **me)
    assert (refused.exit_code, "nothing was deleted" in str(refused.exception)) == (2, True)
    assert berth("job", "delete", "long", stdin="long\n", **me).exit_code == 0


def test_what_may_change_is_changed_by_name(berth: Run, me: Any, ends: list[Any]) -> None:
    words = ("--name", "train", "--env", "A=1")
    made = read(berth("job", "run", *words, "-o", "json", *PROGRAM, **me))
    driving.run_due()
    edit = ("job", "edit", "train")
    done = read(berth(*edit, "--time-limit", "90", "-o", "json", **me))
    assert done["spec"]["time_limit_minutes"] == 90
    refused = berth(*edit, "--retries", "2", **me)
    assert (refused.exit_code, "has not ended" in str(refused.exception)) == (5, True)
    nothing = berth(*edit, **me)
    assert (nothing.exit_code, str(nothing.exception)) == (2, "Say what to change.")
    assert berth(*edit, "--cluster", "other", **me).exit_code == 2  # chosen once
    assert berth("job", "cancel", made["id"], "--wait", **me).exit_code == 0
    changes = ("--retries", "2", "--command", "python other.py", "--no-volumes")
    plan = berth(*edit, *changes, "--plan", **me)
    assert plan.exit_code == 0, plan.exception
    assert "retries: 0 -> 2" in plan.stdout
    before = read(berth("job", "show", "train", "-o", "json", **me))["spec"]
    assert before["retries"] == 0
    spec = read(berth(*edit, *changes, "-o", "json", **me))["spec"]
    assert (spec["retries"], spec["volumes"]) == (2, [])
    assert (spec["command"], spec["env"]) == (["python", "other.py"], {"A": "1"})


def test_one_that_somebody_cancels_meanwhile_is_no_success(
    berth: Run, me: Any, ends: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = work.time.sleep
    asked: list[Any] = []

    def cancels(seconds: float) -> None:
        sleep(seconds)
        if not asked:
            asked.append(berth("job", "cancel", "long", **me))

    monkeypatch.setattr(work.time, "sleep", cancels)
    done = berth("job", "run", "--name", "long", "--wait", *PROGRAM, **me)
    assert done.exit_code == 5
    assert "long is cancelled" in str(done.exception)


def test_waiting_ends_in_time_and_the_job_goes_on(berth: Run, me: Any, ends: list[Any]) -> None:
    done = berth("job", "run", "--name", "long", "--wait", "--timeout", "0", *PROGRAM, **me)
    assert (done.exit_code, "it goes on" in str(done.exception)) == (6, True)
    assert read(berth("job", "show", "long", "-o", "json", **me))["desired"] == "running"


def test_so_does_printing_its_log(berth: Run, me: Any, ends: list[Any]) -> None:
    driving.run_due()
    done = berth("job", "run", "--name", "long", "--follow", "--timeout", "3", *PROGRAM, **me)
    assert (done.exit_code, "Still running after 3 s" in str(done.exception)) == (6, True)


def test_interrupted_it_says_how_to_end_the_job(
    berth: Run, me: Any, ends: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(work.time, "sleep", interrupted)
    done = berth("job", "run", "--name", "long", "--wait", *PROGRAM, **me)
    row = read(berth("job", "show", "long", "-o", "json", **me))
    assert done.exit_code == 1  # of click's runner; of the program 130
    assert f"long goes on. To end it: berth job cancel {row['id']}" in done.stderr
    assert row["desired"] == "running"


def test_a_plan_makes_nothing(berth: Run, me: Any) -> None:
    from jobs.models import Job

    plan = berth("job", "run", "--name", "train", "--plan", *PROGRAM, **me)
    assert plan.exit_code == 0, plan.exception
    assert "Would create: train" in plan.stdout
    assert not Job.objects.exists()


def test_a_file_makes_one_and_stands_alone(
    berth: Run, me: Any, ends: list[Any], tmp_path: Any
) -> None:
    file = tmp_path / "job.yaml"
    document = {
        "apiVersion": "berth.dev/v1",
        "kind": "Job",
        "metadata": {"name": "train", "project": "vision"},
        "spec": {"command": ["python", "train.py"], "retries": 2},
    }
    file.write_text(yaml.safe_dump(document))
    plan = berth("apply", "-f", str(file), "--plan", **me)
    assert "Would create: train" in plan.stdout
    beside = berth("job", "run", "-f", str(file), "--retries", "1", **me)
    assert (beside.exit_code, "leave out --file: --retries" in str(beside.exception)) == (2, True)
    beside = berth("job", "run", "-f", str(file), *PROGRAM, **me)
    assert (beside.exit_code, "COMMAND" in str(beside.exception)) == (2, True)
    ends += [4]
    done = berth("job", "run", "-f", str(file), "--wait", **me)
    assert done.exit_code == 4, (done.output, done.exception)
    assert read(berth("job", "show", "train", "-o", "json", **me))["spec"]["retries"] == 2
    applied = berth("apply", "-f", str(file), **me)
    assert applied.exit_code == 0, applied.exception


def test_what_the_portal_refuses_is_a_sentence_that_names_the_option(berth: Run, me: Any) -> None:
    refused = berth("job", "run", "--env", "PATH=x", *PROGRAM, **me)
    assert (refused.exit_code, "PATH" in str(refused.exception)) == (2, True)
    refused = berth("job", "run", "--volume", "nothing", *PROGRAM, **me)
    assert refused.exit_code in {2, 4}
    assert "nothing" in str(refused.exception)


def test_a_name_that_two_credentials_have_is_not_chosen_from(
    berth: Run, me: Any, namesakes: Callable[[str], dict[str, str]]
) -> None:
    ids = namesakes(me["token"])
    said = berth("job", "run", "--credential", "key", "--plan", *PROGRAM, **me)
    assert told_apart(said, ids), said.exception


def test_one_that_waits_is_told_with_when_and_what_to_type(
    berth: Run, me: Any, machine: Any, project: Any
) -> None:
    from clusters import services
    from runtime.protocol import Device

    names = ["H100"] * 2 + ["A100"] * 2
    machine.set_devices([Device(f"G{n}", n, name, 80_000) for n, name in enumerate(names)])
    services.health_store(key="local", health=machine.probe())
    for name in ("first", "second"):
        said = ("--name", name, "--gpus", "2", "--gpu", "h100")
        assert berth("job", "run", *said, *PROGRAM, **me).exit_code == 0
        driving.run_due()
    shown = berth("job", "show", "second", **me)
    assert "Its turn: " in shown.stdout
    assert "Before it" not in shown.stdout
    row = read(berth("job", "show", "second", "-o", "json", **me))
    sooner = f"berth job edit {row['id']} --gpu a100"
    assert f"  2 × A100 instead: starts now: {sooner}" in shown.stdout  # noqa: RUF001 - the sign
    late = ("--wait", "--timeout", "0.1")
    followed = berth("job", "start", "second", *late, **me)
    assert "queued: Waiting for 2 × h100" in followed.stderr  # noqa: RUF001 - the sign
    assert "Nobody can say when" in followed.stderr or " minute" in followed.stderr


def test_c33_its_end_is_moved_from_a_terminal_and_what_is_not_idle_needs_no_keeping(
    berth: Run, me: Any, machine: Any
) -> None:
    made = read(berth("job", "run", "--time-limit", "30", "-o", "json", *PROGRAM, **me))
    driving.run_due()
    asked = ("job", "extend", made["id"], "45", "-o", "json")
    before = read(berth("job", "show", made["id"], "-o", "json", **me))["ends_at"]
    assert read(berth(*asked, **me))["ends_at"] > before
    kept = berth("job", "keep", made["id"], **me)
    assert (kept.exit_code, "not idle" in str(kept.exception)) == (5, True)


def test_a_run_of_before_with_changes(berth: Run, me: Any, ends: list[Any]) -> None:
    ends += [0]
    assert berth("job", "run", "--name", "train", "--wait", *PROGRAM, **me).exit_code == 0
    again = ("job", "again", "train", "1")
    for pair, told in (
        ("nothing=1", "'nothing' is none of: "),
        ("replicas", "'replicas' is not NAME=VALUE"),
        ("smoke=maybe", "smoke is true or false"),
        ("replicas=many", "'many' is not a valid integer"),
    ):
        refused = berth(*again, "--set", pair, **me)
        assert (refused.exit_code, told in refused.output) == (2, True), refused.output
    pairs = ("replicas=4", "cpu=0.5", "memory=2G", "smoke=false", "args=--epochs '9 0'")
    done = berth(*again, *(word for pair in pairs for word in ("--set", pair)), "-o", "json", **me)
    assert done.exit_code == 0, done.output
    spec = read(done)["spec"]
    assert (spec["replicas"], spec["cpu_milli"], spec["memory_mib"]) == (4, 500, 2048)
    assert spec["args"] == ["--epochs", "9 0"]
    told = read(berth("job", "runs", "train", "-o", "json", **me))
    assert [one["said"]["replicas"] for one in told] == [4, 1]


def test_tensorboard_shows_runs_of_other_jobs_too_whose_names_may_have_colons(
    berth: Run, me: Any, project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from berth_cli import jobs

    ids, said = {}, []
    for name in ("a", "a:v2", "a:3"):
        made = berth("-p", project.slug, "job", "run", "--name", name, "-o", "json", *PROGRAM, **me)
        assert made.exit_code == 0, made.output
        ids[name] = read(made)["id"]
    monkeypatch.setattr(jobs, "open_tensorboard", lambda *asked, **_more: said.append(asked[2]))
    beside = ("--beside", "a:v2", "--beside", "a:v2:4", "--beside", "a:7")
    done = berth("-p", project.slug, "job", "tensorboard", "a", "1", *beside, **me)
    assert done.exit_code == 0, done.output
    others = [ids["a:v2"], f"{ids['a:v2']}.4", f"{ids['a']}.7"]
    assert said == [{"runs": [1], "beside": others}]
    alone = berth("-p", project.slug, "job", "tensorboard", "a", "--beside", "", **me)
    assert alone.exit_code != 0
