"""A machine that can't have a cluster is told why, in sentences."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster import checks, down, state, status
from devcluster.layout import HOST, ROOT, Layout
from devcluster.processes import Processes, Record, start_time
from tools.setup_shell import SetupError


def test_another_system_is_told_that_it_needs_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert checks.lacks() == [
        "The cluster needs Linux: containers and its network are the kernel's."
    ]


def test_somebody_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert any("needs root" in sentence for sentence in checks.lacks())


def test_a_machine_without_go_and_programs_is_told_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BERTH_CLUSTER_CACHE", str(tmp_path))
    monkeypatch.setattr(checks, "has_go", lambda: False)
    assert any("no Go" in sentence for sentence in checks.lacks())


def test_a_small_disk_is_told_its_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BERTH_CLUSTER_CACHE", str(tmp_path / "not/yet"))
    monkeypatch.setattr(checks, "SPACE_COLD_MIB", 10**9)
    assert any("1000000000 MiB" in sentence for sentence in checks.lacks_space())


def test_a_taken_port_is_named_with_who_needs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr(checks, "PORTS", {"registry": [("127.0.0.1", port)]})
        found = checks.taken_ports(Layout(tmp_path))
    assert found == [f"registry needs port {port} on 127.0.0.1, and it is taken."]


def test_ports_of_the_bridge_are_free_while_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "has_bridge", lambda: False)
    assert not checks.taken(HOST, 6443)


def test_status_without_a_cluster_says_how_to_get_one(tmp_path: Path) -> None:
    env = {**os.environ, "BERTH_CLUSTER_DIR": str(tmp_path / "cluster")}
    done = subprocess.run(
        [sys.executable, "-m", "devcluster", "status"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "make cluster-up" in done.stdout


def test_an_unknown_program_is_answered_with_those_that_there_are() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "devcluster", "build", "minikube"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "traefik" in done.stderr


def test_a_reused_process_number_is_not_ours(tmp_path: Path) -> None:
    started = start_time(os.getpid())
    assert started is not None
    assert Record(os.getpid(), started, []).alive()
    assert not Record(os.getpid(), started - 1, []).alive()


def test_a_program_is_started_once_and_ended(tmp_path: Path) -> None:
    layout = Layout(tmp_path).made()
    Processes(layout).start("sleeper", ["sleep", "600"])
    first = json.loads(layout.processes.read_text())["sleeper"]["pid"]
    again = Processes(layout)
    again.start("sleeper", ["sleep", "600"])
    assert again.records["sleeper"].pid == first
    again.stop("sleeper")
    assert state.running(layout) == {}
    assert status.faults(layout)[0].startswith("etcd does not run")


def test_a_program_that_ends_while_it_is_asked_to_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = Processes(Layout(tmp_path).made())
    processes.start("sleeper", ["sleep", "600"])
    record, kill = processes.records["sleeper"], os.kill

    def late(pid: int, number: int) -> None:
        kill(pid, signal.SIGKILL)  # as if it had ended by itself after the look
        Processes.await_end(record, 60)
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", late)
    processes.stop("sleeper")
    assert "sleeper" not in processes.records


def test_a_program_that_ends_at_its_start_shows_its_last_words(tmp_path: Path) -> None:
    processes = Processes(Layout(tmp_path).made())

    def start() -> None:
        processes.start("bad", ["sh", "-c", "echo the reason; exit 1"])
        processes.wait("bad", lambda: False)

    with pytest.raises(SetupError, match="the reason"):
        start()


def test_the_cluster_of_another_checkout_is_not_taken_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would use one bridge: what is removed here is missing there."""
    words = ["containerd", "--config", "/elsewhere/var/cluster/config/containerd.toml"]
    monkeypatch.setattr(down, "commands", lambda: [(7, words)])
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(SetupError, match="/elsewhere/var/cluster"):
        down.down(Layout(tmp_path))
    assert down.of_another(Layout(Path("/elsewhere/var/cluster"))) == ""
