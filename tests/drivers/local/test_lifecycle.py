"""What a workload goes through, on real processes."""

import contextlib
import signal
import subprocess
import time
import urllib.request

import pytest

from runtime.drivers.local import processes
from runtime.protocol import DriverError, InvalidSpec, NotYet, Seen
from runtime.spec import Probe
from tests.drivers.local.harness import PATIENCE_S, PYTHON, processes_of, wait_for

pytestmark = pytest.mark.real


def test_a_server_becomes_ready_and_its_address_answers(supervisor):
    found = supervisor.ready(supervisor.server())
    with urllib.request.urlopen(f"http://{found.address}/", timeout=PATIENCE_S) as answer:
        assert answer.read() == b"ok"
    assert found.launch == 1
    assert found.started_at <= found.ready_at


def test_a_command_without_a_port_is_ready_once_it_runs(supervisor):
    found = supervisor.ready(supervisor.shell("sleep 60"))
    assert found.address == ""


def test_ensure_returns_soon_and_the_program_starts_soon_after(supervisor):
    supervisor.ready(supervisor.shell("sleep 60"))  # the user and the caches are there now

    def returned_and_started() -> tuple[float, float]:
        spec = supervisor.shell("sleep 60")
        begun = time.time()
        supervisor.driver.ensure(spec)
        returned = time.time() - begun
        return returned, supervisor.until(spec.uid, Seen.READY).started_at - begun

    # Measured at 0.01 and 0.03. The machine may be busy: the best of some counts.
    tries = (returned_and_started() for _ in range(5))
    assert any(returned < 0.5 and started < 1.0 for returned, started in tries)


def test_an_exit_code_is_told(supervisor):
    found = supervisor.ended(supervisor.shell("exit 3"))
    assert (found.exit_code, found.reason) == (3, "exit")


def test_a_death_by_signal_is_told(supervisor):
    found = supervisor.ended(supervisor.shell("kill -9 $$"))
    assert (found.exit_code, found.reason) == (-9, "killed")
    assert "SIGKILL" in found.message


def test_a_program_that_is_not_there_is_refused_with_its_name(supervisor):
    with pytest.raises(InvalidSpec, match="no-such-program"):
        supervisor.driver.ensure(supervisor.spec(("no-such-program",)))
    assert list(supervisor.driver.list_owned()) == []


def test_an_environment_that_is_not_there_is_refused_with_its_name(supervisor):
    with pytest.raises(InvalidSpec, match="conda-x") as caught:
        supervisor.driver.ensure(supervisor.spec(("jupyter",), environment="conda-x"))
    assert caught.value.reason == "invalid-spec"


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a..b"])
def test_a_uid_that_is_no_plain_name_is_refused(ordinary, name):
    with pytest.raises(InvalidSpec):
        ordinary.driver.ensure(ordinary.shell("true", uid=name, mounts=()))


def test_a_file_that_can_not_be_executed_fails_with_the_reason(supervisor):
    script = supervisor.environments / "broken/bin"
    script.mkdir(parents=True)
    (script / "python").symlink_to("/usr/bin/python3")
    (script / "tool").write_text("#!/no/such/interpreter\n")
    for path in (supervisor.environments, script.parent, script, script / "tool"):
        path.chmod(0o755)
    found = supervisor.ended(supervisor.spec(("tool",), environment="broken"))
    assert found.reason == "start-failed"
    assert "No such file" in found.message


def test_stopping_asks_first(supervisor):
    spec = supervisor.shell("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    supervisor.ready(spec)
    wait_for(lambda: "up" in supervisor.log(spec))
    with pytest.raises(NotYet):
        supervisor.driver.stop(spec.uid, grace_s=PATIENCE_S)
    found = supervisor.until(spec.uid, Seen.EXITED)
    assert (found.reason, found.exit_code) == ("stopped", 0)
    assert "bye" in supervisor.log(spec)


def test_what_does_not_listen_is_killed_after_the_grace(supervisor):
    spec = supervisor.shell("trap '' TERM; echo up; while :; do sleep 0.05; done")
    supervisor.ready(spec)
    wait_for(lambda: "up" in supervisor.log(spec))
    begun = time.monotonic()
    supervisor.stop(spec.uid, grace_s=0.3)
    assert time.monotonic() - begun >= 0.3
    found = supervisor.seen(spec.uid)
    assert (found.reason, found.exit_code) == ("stopped", -9)


def test_a_daemon_that_detached_itself_ends_with_its_workload(supervisor):
    daemon = (
        "import os,sys,time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        'os.environ.clear(); print("made", flush=True); time.sleep(600)'
    )
    spec = supervisor.shell(f"/usr/bin/python3 -c '{daemon}'; exec sleep 600")
    supervisor.ready(spec)
    wait_for(lambda: "made" in supervisor.log(spec))
    wait_for(lambda: len(processes_of(spec.uid)) == 2)  # the one between them has gone
    supervisor.stop(spec.uid)
    assert processes_of(spec.uid) == set()


def test_a_higher_launch_replaces_one_that_ended_and_keeps_the_home(supervisor):
    first = supervisor.shell("echo $RANDOM > $HOME/file; exit 0", launch=1)
    supervisor.ended(first)
    second = supervisor.shell("cat $HOME/file && sleep 60", uid=first.uid, launch=2)
    assert supervisor.ready(second).launch == 2
    assert supervisor.home(first) == supervisor.home(second)
    assert (supervisor.home(second) / "file").exists()


def test_removal_leaves_nothing_but_the_volume(supervisor):
    spec = supervisor.server()
    supervisor.ready(spec)
    supervisor.remove(spec.uid)
    assert supervisor.seen(spec.uid).seen == Seen.MISSING
    assert processes_of(spec.uid) == set()
    assert list((supervisor.state / "records").iterdir()) == []
    assert list((supervisor.state / "spaces").iterdir()) == []
    assert (supervisor.home(spec) / "starts").exists()
    wait_for(lambda: list((supervisor.state / "trash").iterdir()) == [])


def test_a_secret_is_in_the_environment_and_nowhere_else(supervisor):
    canary = "canary-5c1ab"
    spec = supervisor.shell("test ${#TOKEN} = 12 && sleep 60", secret_env=lambda: {"TOKEN": canary})
    pid = supervisor.ready(spec).detail["pid"]
    for process in processes.pids():
        with contextlib.suppress(OSError):
            assert canary.encode() not in (processes.PROC / str(process) / "cmdline").read_bytes()
    assert canary.encode() in (processes.PROC / str(pid) / "environ").read_bytes()
    for path in supervisor.folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # written beside its name, and renamed
            assert not path.is_file() or canary.encode() not in path.read_bytes(), path


def test_a_secret_is_made_only_when_something_is_started(supervisor):
    made = []
    spec = supervisor.shell("sleep 60", secret_env=lambda: made.append(1) or {})
    supervisor.ready(spec)
    supervisor.driver.ensure(spec)
    assert made == [1]


def test_a_megabyte_of_environment_is_no_hang(supervisor):
    spec = supervisor.shell(
        "echo ${#BIG0}; sleep 60", env={f"BIG{i}": "x" * 100_000 for i in range(10)}
    )
    supervisor.ready(spec)
    wait_for(lambda: "100000" in supervisor.log(spec))


def test_fifty_at_once_all_come(ordinary):
    specs = [ordinary.shell("sleep 600") for _ in range(50)]
    for spec in specs:
        ordinary.driver.ensure(spec)
    for spec in specs:
        ordinary.until(spec.uid, Seen.READY)


def test_a_probe_waits_for_the_wanted_status(supervisor):
    script = (
        "import http.server,sys,time\n"
        "begun=time.time()\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200 if time.time()-begun>.5 else 503); self.end_headers()\n"
        "    def log_message(self,*_): pass\n"
        "http.server.HTTPServer(('127.0.0.1',int(sys.argv[1])),H).serve_forever()\n"
    )
    spec = supervisor.spec(("/usr/bin/python3", "-c", script, "{port}"), probe=Probe("/api", 200))
    found = supervisor.ready(spec)
    assert found.ready_at - found.started_at > 0.4


def test_what_the_supervisor_is_sent_never_brings_it_down(ordinary):
    import socket

    for rubbish in (
        b"\n",
        b"{}\n",
        b"[1]\n",
        b'{"verb":"ensure","spec":{}}\n',
        b'{"verb":"__init__"}\n',
        b"\xff\n",
    ):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(ordinary.socket))
            connection.sendall(rubbish)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(4096)
    assert ordinary.driver.probe().reachable


def test_a_second_supervisor_on_the_same_folder_refuses(ordinary):
    import sys

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "runtime.drivers.local.supervisor",
            "--socket",
            ordinary.folder / "o.sock",
            "--state",
            ordinary.state,
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 3
    assert "another supervisor" in done.stderr


def test_a_supervisor_that_is_asked_to_end_leaves_the_work_alone(supervisor):
    spec = supervisor.server()
    before = supervisor.ready(spec)
    supervisor.process.send_signal(signal.SIGTERM)
    supervisor.process.wait(timeout=PATIENCE_S)
    supervisor.start()
    after = supervisor.until(spec.uid, Seen.READY)
    assert after.detail["pid"] == before.detail["pid"]
    assert after.address == before.address
    assert after.version > before.version


def test_a_machine_out_of_descriptors_refuses_and_recovers(ordinary):
    """The supervisor can open nothing more: an error now, a workload once it can again."""
    spec = ordinary.shell("sleep 60")
    limit_files(ordinary, 12)
    with pytest.raises(DriverError):
        ordinary.driver.ensure(spec)
    limit_files(ordinary, 1000)
    assert ordinary.ready(spec).launch == 1


def limit_files(supervisor, soft):
    """Only the same user may set another process's limits."""
    code = (
        f"import resource as r; p = {supervisor.process.pid}; f = r.RLIMIT_NOFILE\n"
        f"r.prlimit(p, f, ({soft}, r.prlimit(p, f)[1]))"
    )
    subprocess.run([PYTHON, "-c", code], check=True, **supervisor.as_user())


HOOK = """#!/bin/sh
echo "saving because $(cat "$BERTH_NOTICE_FILE")"
id -u >"$HOME/who"; sleep 0.3; echo done >"$HOME/saved"
"""


def _with_hook(supervisor, text: str, program: str):
    lines = [
        'mkdir -p "$HOME/.berth"',
        f"cat >\"$HOME/.berth/on-park\" <<'END'\n{text}END",
        'chmod +x "$HOME/.berth/on-park"',
        program,
    ]
    spec = supervisor.shell("\n".join(lines))
    supervisor.ready(spec)
    wait_for(lambda: b"ready" in supervisor.driver.read_log(spec.uid)[0])
    return spec


def test_a_hook_that_cannot_run_is_told_in_the_log_and_holds_nothing_up(supervisor):
    spec = _with_hook(supervisor, "no program\n", SAVED.replace('cat "$HOME/saved"; ', ""))
    assert _park(supervisor, spec, grace_s=60).exit_code == 0
    assert "on-park: [Errno 8] Exec format error" in supervisor.log(spec)


def _park(supervisor, spec, *, grace_s: float):
    supervisor.driver.tell(spec.uid, {"why": "parked", "until": "soon"})
    with contextlib.suppress(NotYet):
        supervisor.driver.stop(spec.uid, grace_s=grace_s)
    return supervisor.until(spec.uid, Seen.EXITED)


SAVED = "trap 'cat \"$HOME/saved\"; exit 0' TERM; echo ready; while :; do sleep 0.05; done"


def test_its_owners_hook_runs_as_they_before_the_program_is_asked_to_end(supervisor):
    spec = _with_hook(supervisor, HOOK, SAVED)
    assert _park(supervisor, spec, grace_s=20).exit_code == 0
    log = supervisor.driver.read_log(spec.uid)[0].decode()
    assert 'saving because {"why": "parked", "until": "soon"}' in log
    assert log.endswith("done\n")  # the program read, when it was told, what the hook had written


def test_a_hook_that_does_not_end_takes_no_more_than_half_of_the_grace(supervisor):
    program = "trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    spec = _with_hook(supervisor, "#!/bin/sh\nsleep 600\n", program)
    begun = time.monotonic()
    assert _park(supervisor, spec, grace_s=2).exit_code == 0
    assert 1.0 <= time.monotonic() - begun < PATIENCE_S
    assert b"told" in supervisor.driver.read_log(spec.uid)[0]
    assert wait_for(lambda: not processes_of(spec.uid))


def test_who_has_no_hook_is_asked_to_end_at_once(supervisor):
    spec = supervisor.shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done")
    supervisor.ready(spec)
    wait_for(lambda: b"ready" in supervisor.driver.read_log(spec.uid)[0])
    begun = time.monotonic()
    assert _park(supervisor, spec, grace_s=60).exit_code == 7
    assert time.monotonic() - begun < 15
