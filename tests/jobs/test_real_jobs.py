"""The real thing on one machine: a portal, its worker and supervisor, and processes that meet."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.running import WITHIN_S, Jobs
from tests.support import torch
from tests.support.portal import ROOT, Portal

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

MEETS = """
import os, socket, time
where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    with socket.create_server(where) as door:
        door.accept()[0].sendall(b"welcome")
        print("met", flush=True)
else:
    while True:
        try:
            with socket.create_connection(where) as met:
                print(met.recv(64).decode(), flush=True)
            break
        except OSError:
            time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    running = Portal()
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture(scope="module")
def jobs(portal: Portal) -> Jobs:
    size = {"cpu_milli": 1000, "memory_mib": 1024}
    return Jobs(portal, owner="admin", cluster_key="local", environment="jupyterlab", **size)


def test_two_replicas_meet_and_each_says_how_it_ended(jobs: Jobs) -> None:
    one = jobs.make("meets", replicas=2, command=["python", "-c", MEETS])
    found = jobs.until(one, "succeeded")
    here = os.uname().nodename
    told = [(r["index"], r["seen"], r["exit_code"], r["node"]) for r in found["replicas"]]
    assert told == [(0, "exited", 0, here), (1, "exited", 0, here)]
    assert (found["exit_code"], found["times"]) == (0, [True, True])
    assert [text.strip() for text in jobs.logs(found, 2)] == ["met", "welcome"]


def test_one_that_fails_ends_the_others_and_is_tried_again_as_it_may(jobs: Jobs) -> None:
    script = 'echo "try of $RANK"; [ "$RANK" = 1 ] && exit 7; sleep 600'
    one = jobs.make("fails", replicas=2, retries=1, command=["bash", "-c", script])
    found = jobs.until(one, "failed")
    assert (found["exit_code"], found["failed_replica"]) == (7, 1)
    assert found["steps"].count("restarted") == 1
    assert [r["reason"] for r in found["replicas"]] == ["stopped", "exit"]


def test_a_persons_words_stay_as_they_are_and_a_signal_is_told_as_a_shell_does(jobs: Jobs) -> None:
    script = 'echo "{port} {secrets} $1"; kill -9 $$'
    one = jobs.make("words", command=["bash", "-c", script, "x"], args=["{port}"])
    found = jobs.until(one, "failed")
    assert jobs.logs(found, 1)[0].strip() == "{port} {secrets} {port}"
    assert (found["exit_code"], found["reason"]) == (137, "killed")


def test_cancelled_it_ends_with_all_its_replicas(jobs: Jobs) -> None:
    one = jobs.make("long", replicas=2, command=["sleep", "3600"])
    jobs.until(one, "running")
    jobs.stop(one)
    found = jobs.until(one, "cancelled")
    assert [(r["seen"], r["reason"]) for r in found["replicas"]] == [("exited", "stopped")] * 2
    assert found["exit_code"] is None


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 23", 23), ("kill -9 $$", 137)])
def test_a_command_line_follows_one_and_ends_as_it_did(
    script: str, code: int, portal: Portal, tmp_path: Path
) -> None:
    """As people run it: a process of its own that asks the portal over HTTP."""
    own = {"BERTH_CONFIG": str(tmp_path / "config.json"), "BERTH_PROJECT": "demo"}
    own |= {"BERTH_URL": portal.url, "BERTH_TOKEN": portal.token("admin")}
    size = ("--cpu", "1", "--memory", "1G", "--environment", "jupyterlab", "--env", "WORD=spoken")
    program = ("bash", "-c", f'for n in 1 2; do echo "$WORD $n"; sleep 0.7; done; {script}')
    ended = subprocess.run(
        [sys.executable, "-m", "berth_cli", "job", "run", *size, "--follow", "--", *program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "cli"), **own},
        timeout=WITHIN_S,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == code, ended.stderr
    assert ended.stdout == "spoken 1\nspoken 2\n"
    assert ended.stderr.splitlines()[0].startswith("queued")
    assert ("failed" in ended.stderr) == (code != 0)


def test_pytorch_trains_one_model_on_two_replicas(jobs: Jobs) -> None:
    name = torch.environment()
    one = jobs.make(
        "ddp",
        replicas=2,
        environment=name,
        env=torch.told(torch.unpacked()),
        command=["python3", "-c", torch.PROGRAM],
    )
    found = jobs.until(one, "succeeded")
    zero, other = (torch.trained(text) for text in jobs.logs(found, 2))
    assert (zero[:3], other[:3]) == ((0, 2, 3), (1, 2, 3))
    assert zero[3] == other[3]  # trained apart they would differ
