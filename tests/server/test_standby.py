"""A process that the manager runs only while it is wanted."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def until(condition: object, seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_it_starts_when_wanted_restarts_when_killed_and_goes_when_not(tmp_path: Path) -> None:
    wanted, pids = tmp_path / "wanted", tmp_path / "pids"
    script = f"""
        import sys, time
        from pathlib import Path
        from portal.server import processes
        from portal.server.manager import Manager
        from portal.server.processes import Child
        processes.LOOK_EVERY_S = 0.1
        body = "import os, time; open({str(pids)!r}, 'a').write(str(os.getpid()) + ' '); time.sleep(600)"
        def make():
            return Child("extra", [sys.executable, "-c", body], Path({str(tmp_path / "log")!r}))
        stay = Child("stay", ["sleep", "600"], Path({str(tmp_path / "log")!r}))
        one = processes.Standby("extra", Path({str(wanted)!r}), make)
        sys.exit(Manager([stay], standby=[one]).run())
    """
    manager = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT)

    def seen() -> list[int]:
        return [int(word) for word in pids.read_text().split()] if pids.exists() else []

    try:
        time.sleep(0.5)
        assert seen() == []
        wanted.touch()
        assert until(lambda: len(seen()) == 1)
        os.kill(seen()[0], signal.SIGKILL)
        assert until(lambda: len(seen()) == 2)
        wanted.unlink()
        assert until(lambda: not Path(f"/proc/{seen()[1]}").exists())
        wanted.touch()
        assert until(lambda: len(seen()) == 3)
    finally:
        manager.terminate()
        assert manager.wait(60) == 0
    assert not Path(f"/proc/{seen()[2]}").exists()


def test_somebody_who_knocks_is_let_in_by_a_process_that_was_not_wanted_before(
    tmp_path: Path,
) -> None:
    from portal.server.processes import Child, Standby

    wanted = tmp_path / "gateway.wanted"
    with socket.create_server(("127.0.0.1", 0)) as door:
        child = Child("gateway", ["true"], tmp_path / "log")
        one = Standby("gateway", wanted, lambda: child, door.fileno())
        assert one.tend(10.0) == (None, None)
        assert not wanted.exists()
        with socket.create_connection(door.getsockname()):
            assert one.tend(20.0) == (child, None)
        assert wanted.exists()  # the worker takes it away when it was not needed for a while
        assert one.tend(30.0) == (None, None)
        wanted.unlink()
        assert one.tend(40.0) == (None, child)
