"""``berth ai-platform jobs``: typed as for AI Platform, against a portal on a fake machine."""

from __future__ import annotations

import io
import os
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from berth_cli import ai_platform, packages
from berth_cli.client import ApiError

from tests.cli.conftest import read
from tests.cli.test_jobs import ends, machine, me  # noqa: F401 - fixtures
from tests.jobs.test_training_input import FILES

Run = Callable[..., Any]
CONFIG = str(FILES / "config.yaml")
SMALL = ("--scale-tier", "CUSTOM", "--master-machine-type", "n1-standard-1")
SUBMIT = ("ai-platform", "jobs", "submit", "training")


@pytest.fixture(autouse=True)
def _database(transactional_db: None) -> None:
    """A portal that listens."""


def test_submitted_described_listed_and_followed(berth: Run, me: Any, ends: list[Any]) -> None:  # noqa: F811
    ends += ["epoch 1\n", 0]
    words = (*SMALL, "--module-name", "trainer.task", "--labels", "team=vision,kind=try")
    done = berth(*SUBMIT, "mnist", *words, "--stream-logs", "--", "--epochs", "3", **me)
    assert done.exit_code == 0, (done.output, done.exception)
    assert done.stdout.startswith("jobId: mnist\nstate: QUEUED\n")
    assert done.stdout.splitlines()[-1] == "epoch 1"
    told = yaml.safe_load(berth("ai-platform", "jobs", "describe", "mnist", **me).stdout)
    assert (told["jobId"], told["state"]) == ("mnist", "SUCCEEDED")
    assert told["labels"] == {"team": "vision", "kind": "try"}
    assert told["trainingInput"]["args"] == ["--epochs", "3"]
    json = read(berth("ai-platform", "jobs", "describe", "mnist", "--format", "json", **me))
    assert json["startTime"] <= json["endTime"]
    table = berth("ai-platform", "jobs", "list", **me).stdout.split()
    assert table[:5] == ["JOB_ID", "STATUS", "CREATED", "mnist", "SUCCEEDED"]
    again = berth("ai-platform", "jobs", "stream-logs", "mnist", **me)
    assert (again.exit_code, again.stdout.splitlines()[-1]) == (0, "epoch 1")


def test_one_that_fails_ends_the_command_as_its_program_ended(
    berth: Run,
    me: Any,  # noqa: F811
    ends: list[Any],  # noqa: F811
) -> None:
    ends += [3]
    done = berth(*SUBMIT, "bad", *SMALL, "--module-name", "a.b", "--stream-logs", **me)
    assert done.exit_code == 3
    told = yaml.safe_load(berth("ai-platform", "jobs", "describe", "bad", **me).stdout)
    assert (told["state"], "exit code 3" in told["errorMessage"]) == ("FAILED", True)


def test_cancelled_by_name_and_once(berth: Run, me: Any) -> None:  # noqa: F811
    from tests.support import driving

    berth(*SUBMIT, "long", *SMALL, "--module-name", "a.b", **me)
    driving.run_due()
    assert berth("ai-platform", "jobs", "cancel", "long", **me).exit_code == 0
    driving.run_due()
    told = yaml.safe_load(berth("ai-platform", "jobs", "describe", "long", **me).stdout)
    assert (told["state"], "endTime" in told) == ("CANCELLED", True)
    again = berth("ai-platform", "jobs", "cancel", "long", **me)
    assert (again.exit_code, str(again.exception)) == (5, "long: cancelled already.")
    assert berth("ai-platform", "jobs", "describe", "none", **me).exit_code == 4


def test_a_plan_is_a_table_of_fields_and_ends_badly_where_one_is_refused(
    berth: Run,
    me: Any,  # noqa: F811
) -> None:
    words = ("--plan", "--config", CONFIG, "--region", "elsewhere")
    done = berth(*SUBMIT, "mnist", *words, **me)
    assert done.exit_code == 5
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert {"FIELD", "masterType", "jobDir", "scheduling.maxRunningTime"} <= set(lines)
    assert "REFUSED" in lines["masterConfig.acceleratorConfig.type"]
    assert "elsewhere" in lines["region"]
    assert "acceleratorConfig.type" in str(done.exception)
    done = berth(*SUBMIT, "mnist", "--plan", *SMALL, "--module-name", "a", **me)
    assert done.exit_code == 0, done.exception
    assert "Would create: mnist" in done.stdout


def test_what_is_wrong_in_the_file_is_said_and_nothing_sent(
    berth: Run,
    me: Any,  # noqa: F811
    tmp_path: Path,
) -> None:
    from jobs.models import Job

    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (10 * 2**20))
    binary = tmp_path / "binary.yaml"
    binary.write_bytes("réseau".encode("shift-jis", errors="ignore") + b"\xff")
    twice = tmp_path / "twice.yaml"
    twice.write_text("trainingInput:\n  region: a\n  region: b\n")
    for file, said in (
        (large, "larger than 256 KiB"),
        (binary, "not text in UTF-8"),
        (twice, "Line 3, column 3: “region” stands twice"),
        (tmp_path / "none.yaml", "can't be read"),
    ):
        done = berth(*SUBMIT, "mnist", "--config", str(file), **me)
        assert (done.exit_code, said in str(done.exception)) == (2, True), done.exception
    assert not Job.objects.exists()


def test_kubectl_finds_the_same_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    from berth_cli import main

    seen: list[Any] = []
    monkeypatch.setattr(main.cli, "main", lambda **_: seen.append(main.sys.argv[1:]))
    monkeypatch.setattr(main.sys, "argv", ["kubectl-ai_platform", "jobs", "list"])
    main.kubectl_main()
    assert seen == [["ai-platform", "jobs", "list"]]


# --- packages ---------------------------------------------------------------------------------


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    folder = tmp_path / "trainer"
    (folder / "inner").mkdir(parents=True)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "task.pyc").write_text("x")
    (folder / "__init__.py").write_text("")
    (folder / "task.py").write_text("print(1)\n")
    (folder / "inner" / "名前.py").write_text("")
    return folder


def packed(folder: Path) -> bytes:
    into = io.BytesIO()
    packages.pack(folder, into)
    return into.getvalue()


def test_a_folder_is_packed_under_its_name_and_the_same_each_time(trainer: Path) -> None:
    first = packed(trainer)
    with tarfile.open(fileobj=io.BytesIO(first)) as tar:
        names = tar.getnames()
    assert names == [
        *("trainer", "trainer/__init__.py", "trainer/inner", "trainer/inner/名前.py"),
        "trainer/task.py",
    ]
    os.utime(trainer / "task.py", (1, 1))
    assert packed(trainer) == first


def test_what_can_not_go_along_is_refused_by_name(
    trainer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = trainer / "out"
    link.symlink_to("/etc/passwd")
    with pytest.raises(ApiError, match="out is a link"):
        packed(trainer)
    link.unlink()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(trainer / "door"))
        with pytest.raises(ApiError, match="no file and no folder"):
            packed(trainer)
    (trainer / "door").unlink()
    odd = os.fsencode(trainer) + b"/" + "表".encode("shift-jis")
    os.close(os.open(odd, os.O_CREAT))
    with pytest.raises(ApiError, match="is not UTF-8"):
        packed(trainer)
    Path(os.fsdecode(odd)).unlink()
    monkeypatch.setattr(packages, "MAX_FILES", 3)
    with pytest.raises(ApiError, match=r"more than 3 files\. Put what is large on a volume"):
        packed(trainer)
    monkeypatch.setattr(packages, "MAX_FILES", 10**5)
    with (trainer / "large.bin").open("wb") as file:
        file.truncate(4 * 2**30)
    with pytest.raises(ApiError, match="holds more than 512 MiB"):
        packed(trainer)


def test_what_is_too_large_packed_is_refused_by_the_portal(
    berth: Run,
    me: Any,  # noqa: F811
    trainer: Path,
    settings: Any,
) -> None:
    from jobs.models import Job

    settings.BERTH_PACKAGE_MIB = 1
    (trainer / "weights.bin").write_bytes(os.urandom(3 * 2**20))
    words = (*SMALL, "--module-name", "trainer.task", "--package-path", str(trainer))
    done = berth(*SUBMIT, "large", *words, **me)
    assert (done.exit_code, "larger than 1 MiB" in str(done.exception)) == (2, True)
    assert not Job.objects.exists()
    (trainer / "weights.bin").unlink()
    assert berth(*SUBMIT, "small", *words, **me).exit_code == 0
    assert Job.objects.get().code.startswith("package:")


def test_limits_of_a_file_are_those_of_the_portal() -> None:
    from jobs.ai_platform.documents import MAX_BYTES

    assert ai_platform.MAX_BYTES == MAX_BYTES
