"""The process manager, with small real processes."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from portal.server import processes
from portal.server.manager import Manager
from portal.server.processes import Child, rotate

ROOT = Path(__file__).resolve().parents[2]
STAY = "import time\nprint('here', flush=True)\ntime.sleep(60)"


def child(tmp_path: Path, script: str, **extra: Any) -> Child:
    return Child("one", [sys.executable, "-c", script], tmp_path / "one.log", **extra)


def until(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_the_manager_imports_neither_django_nor_celery() -> None:
    script = (
        "import sys, portal.server.up; print([m for m in ('django', 'celery') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_first_restart_is_at_once_and_later_ones_wait_longer(tmp_path: Path) -> None:
    one = child(tmp_path, STAY)
    one.started_at = 100.0
    pauses = []
    for _ in range(8):
        one.ended(100.5)
        pauses.append(round(one.due_at - 100.5, 3))
    assert pauses == [0.0, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0, 30.0]
    one.ended(100.0 + processes.LIVED_LONG_S)
    assert one.due_at == 100.0 + processes.LIVED_LONG_S


def test_a_child_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    script = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{STAY}"
    one = child(tmp_path, script, grace_s=0.3)
    one.start(tmp_path)
    assert until(lambda: "here" in one.tail())
    one.stop()
    assert one.process is not None
    assert one.process.returncode == -signal.SIGKILL


def test_children_that_ignore_sigterm_are_gone_after_one_grace_not_after_the_sum(
    tmp_path: Path,
) -> None:
    """`berth down` waits a minute: gateway, gate, worker, web and proxy together have more."""
    script = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{STAY}"
    children = [child(tmp_path / name, script, grace_s=3.0) for name in "abcd"]
    for one in children:
        one.log.parent.mkdir()
        one.start(tmp_path)
    assert until(lambda: all("here" in one.tail() for one in children))
    began = time.monotonic()
    Manager(children)._stop_all()
    assert time.monotonic() - began < 9.0
    assert [one.process and one.process.returncode for one in children] == [-signal.SIGKILL] * 4


def test_connections_through_the_proxy_last_as_long_as_what_answers_them(tmp_path: Path) -> None:
    """It ends at once when it is asked; web and gateway answer first what they have begun."""
    (tmp_path / "done").mkdir()
    script = """if True:
        import signal, sys, time
        from pathlib import Path
        def told(*_):
            time.sleep({ends_s})
            print("before it", *sorted(one.name for one in Path("done").iterdir()), flush=True)
            Path("done", "{name}").touch()
            sys.exit()
        signal.signal(signal.SIGTERM, told)
        print("here", flush=True)
        time.sleep(60)
    """
    children = []
    for name, ends_s in (("proxy", 0), ("web", 2), ("worker", 1)):
        folder = tmp_path / f"log of {name}"
        folder.mkdir()
        text = script.format(name=name, ends_s=ends_s)
        children.append(child(folder, text, is_last=name == "proxy"))
        children[-1].start(tmp_path)
    assert until(lambda: all("here" in one.tail() for one in children))
    began = time.monotonic()
    Manager(children)._stop_all()
    assert time.monotonic() - began < 9.0
    assert "before it web worker" in children[0].tail()


def test_what_ended_with_the_child_that_all_ends_with_is_not_started_again(tmp_path: Path) -> None:
    """As the supervisor that `berth down --workspaces` ends, where root's half looks late."""
    children = [child(tmp_path / name, STAY) for name in "ab"]
    manager = Manager(children, until=children[1])
    for one in children:
        one.log.parent.mkdir()
        one.start(tmp_path)
    for one in children:
        assert one.process is not None
        one.process.kill()
        one.process.wait()
    manager._tend()
    assert manager.stopping
    assert [one.alive for one in children] == [False, False]


def test_a_long_log_is_moved_on_while_its_writer_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "LOG_LIMIT", 1000)
    log = tmp_path / "x.log"
    with log.open("ab") as writer:
        for number in range(5):
            writer.write(b"%d" % number * 1200 + b"\n")
            writer.flush()
            assert rotate(log)
        writer.write(b"last\n")
    assert log.read_bytes() == b"last\n"
    kept = sorted(p.name for p in tmp_path.iterdir())
    assert kept == ["x.log", "x.log.1", "x.log.2", "x.log.3"]
    assert (tmp_path / "x.log.1").read_bytes().startswith(b"4")


@pytest.fixture
def manager(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    with managed(tmp_path) as process:
        yield process


@contextmanager
def managed(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A manager of two children in a process of its own."""
    script = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from portal.server.manager import Manager
        from portal.server.processes import Child
        stay = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
        folder = Path({str(tmp_path)!r})
        children = [
            Child(name, [sys.executable, "-c", stay], folder / (name + ".log"))
            for name in ("first", "second")
        ]
        sys.exit(Manager(children, logs=folder).run())
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def numbers(tmp_path: Path, name: str) -> list[int]:
    log = tmp_path / f"{name}.log"
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_child_comes_back_at_once(tmp_path: Path) -> None:
    def back_after(folder: Path) -> float:
        folder.mkdir()
        with managed(folder):
            assert until(lambda: numbers(folder, "first") and numbers(folder, "second"))
            os.kill(numbers(folder, "first")[0], signal.SIGKILL)
            killed = time.monotonic()
            assert until(lambda: len(numbers(folder, "first")) == 2)
            assert len(numbers(folder, "second")) == 1
            return time.monotonic() - killed

    # The machine may be busy: the best of some counts.
    assert any(back_after(tmp_path / str(number)) < 2 for number in range(3))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_manager_and_its_children(
    tmp_path: Path, manager: "subprocess.Popen[str]", number: int
) -> None:
    assert until(lambda: numbers(tmp_path, "first") and numbers(tmp_path, "second"))
    manager.send_signal(number)
    assert manager.wait(60) == 0
    assert not [n for name in ("first", "second") for n in numbers(tmp_path, name) if alive(n)]


def test_killing_the_manager_leaves_no_child_behind(
    tmp_path: Path, manager: "subprocess.Popen[str]"
) -> None:
    assert until(lambda: numbers(tmp_path, "first") and numbers(tmp_path, "second"))
    manager.kill()
    manager.wait()
    children = [*numbers(tmp_path, "first"), *numbers(tmp_path, "second")]
    assert until(lambda: not any(alive(number) for number in children))


def test_a_child_that_ends_again_and_again_shows_its_last_lines(tmp_path: Path) -> None:
    script = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from portal.server.manager import Manager
        from portal.server.processes import Child
        bad = Child("bad", [sys.executable, "-c", "raise SystemExit('no such colour')"],
                    Path({str(tmp_path)!r}) / "bad.log")
        Manager([bad]).run()
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline().decode()
        second = process.stderr.readline().decode()
        process.terminate()
    assert "bad ended 3 times soon after its start" in first
    assert "no such colour" in second
