"""SIGKILL of the supervisor or of a workload's parent, anywhere, changes nothing that counts."""

import os
import signal
import time

import pytest

from runtime.drivers.local import processes
from runtime.drivers.local.records import Record
from runtime.protocol import NotYet, Seen, Unreachable
from tests.drivers.local.harness import MODES, PATIENCE_S, Supervisor, processes_of, wait_for

pytestmark = pytest.mark.real

SUPERVISOR_POINTS = [
    "supervisor-recorded",
    "supervisor-spawned",
    "supervisor-ready",
    "supervisor-ready-recorded",
    "supervisor-stop",
    "supervisor-stop-recorded",
    "supervisor-end-recorded",
    "supervisor-remove",
    "supervisor-remove-space-gone",
    "supervisor-remove-record-gone",
]
SHIM_POINTS = [
    "shim-start",
    "shim-locked",
    "shim-recorded",
    "shim-forked",
    "shim-child-recorded",
    "shim-gone",
    "shim-went",
    "shim-ended",
    "shim-exit-recorded",
]


def persist(supervisor: Supervisor, act, until) -> None:
    """Do what the engine does: ask again, through a supervisor that is started again."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if supervisor.is_dead:
            supervisor.deaths += 1
            supervisor.start()
        try:
            act()
            if until():
                return
        except (Unreachable, NotYet):
            pass
        time.sleep(0.01)
    raise AssertionError(f"not reached; {supervisor.messages()}")


def live_through(supervisor: Supervisor) -> None:
    """Start, stop, start again, remove; judge after each step that one and only one runs."""
    spec = supervisor.server()
    for launch in (1, 2):
        again = supervisor.server(uid=spec.uid, launch=launch)
        persist(
            supervisor,
            lambda again=again: supervisor.driver.ensure(again),
            lambda: supervisor.seen(spec.uid).seen == Seen.READY,
        )
        assert supervisor.seen(spec.uid).launch == launch
        assert len(processes_of(spec.uid)) == 1
        persist(
            supervisor,
            lambda: supervisor.driver.stop(spec.uid, grace_s=1),
            lambda: supervisor.seen(spec.uid).seen == Seen.EXITED,
        )
        assert processes_of(spec.uid) == set()
    persist(
        supervisor,
        lambda: supervisor.driver.remove(spec.uid),
        lambda: supervisor.seen(spec.uid).seen == Seen.MISSING,
    )
    assert processes_of(spec.uid) == set()
    assert list((supervisor.state / "records").iterdir()) == []
    assert not (supervisor.home(spec) / "double").exists()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("point", SUPERVISOR_POINTS)
def test_e1_the_supervisor_dies_at(point, mode, make_supervisor):
    supervisor = make_supervisor(mode, killpoint=point)
    live_through(supervisor)
    assert supervisor.deaths == 1


@pytest.mark.long("a sweep of kill points; one of them: the tests below")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("point", SHIM_POINTS)
def test_e1_the_parent_of_a_workload_dies_at(point, mode, make_supervisor):
    """Every parent dies there, until the supervisor is started without the kill point."""
    supervisor = make_supervisor(mode, killpoint=point)
    spec = supervisor.server()
    supervisor.driver.ensure(spec)
    if point in ("shim-gone", "shim-went"):
        supervisor.until(spec.uid, Seen.READY)
        assert len(processes_of(spec.uid)) == 1
    elif point in ("shim-ended", "shim-exit-recorded"):
        supervisor.until(spec.uid, Seen.READY)
        supervisor.stop(spec.uid)
        wanted = "unknown" if point == "shim-ended" else "stopped"
        assert supervisor.seen(spec.uid).reason == wanted
    else:
        assert supervisor.until(spec.uid, Seen.EXITED).reason == "start-failed"
        assert processes_of(spec.uid) == set()
    supervisor.restart()
    supervisor.remove(spec.uid)
    live_through(supervisor)


@pytest.mark.long("a sweep of kill points; one of them: the tests below")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("point", SHIM_POINTS)
def test_e1_both_die_together(point, mode, make_supervisor):
    supervisor = make_supervisor(mode, killpoint=point)
    spec = supervisor.server()
    supervisor.driver.ensure(spec)
    supervisor.restart()
    persist(
        supervisor,
        lambda: supervisor.driver.ensure(spec),
        lambda: supervisor.seen(spec.uid).seen in (Seen.READY, Seen.EXITED),
    )
    assert len(processes_of(spec.uid)) <= 1
    assert not (supervisor.home(spec) / "double").exists()
    supervisor.remove(spec.uid)
    assert processes_of(spec.uid) == set()


def parent_of(supervisor: Supervisor, uid: str) -> int:
    return Record(supervisor.state / "records" / uid).read("shim")["pid"]


def test_a_restart_of_the_supervisor_is_not_noticed_by_the_work(supervisor):
    spec = supervisor.server()
    before = supervisor.ready(spec)
    supervisor.restart()
    after = supervisor.until(spec.uid, Seen.READY)
    assert (after.address, after.detail["pid"]) == (before.address, before.detail["pid"])
    assert (after.started_at, after.ready_at) == (before.started_at, before.ready_at)
    assert after.version > before.version
    supervisor.driver.ensure(spec)
    assert len(processes_of(spec.uid)) == 1


def test_an_exit_code_is_kept_while_no_supervisor_runs(supervisor):
    spec = supervisor.shell("while [ ! -e $HOME/go ]; do sleep 0.02; done; exit 7")
    supervisor.ready(spec)
    supervisor.kill()
    (supervisor.home(spec) / "go").touch()
    wait_for(lambda: processes_of(spec.uid) == set())
    supervisor.start()
    assert supervisor.until(spec.uid, Seen.EXITED).exit_code == 7


def test_output_written_while_no_supervisor_runs_is_in_the_log(supervisor):
    spec = supervisor.shell("while [ ! -e $HOME/go ]; do sleep 0.02; done; echo alone; sleep 60")
    supervisor.ready(spec)
    supervisor.kill()
    (supervisor.home(spec) / "go").touch()
    time.sleep(0.2)
    supervisor.start()
    wait_for(lambda: "alone" in supervisor.log(spec))


def test_a_workload_whose_parent_is_killed_lives_on_and_is_watched(supervisor):
    spec = supervisor.shell(
        "echo one; while [ ! -e $HOME/go ]; do sleep 0.02; done; echo two; exit 5"
    )
    before = supervisor.ready(spec)
    wait_for(lambda: "one" in supervisor.log(spec))
    parent = Record(supervisor.state / "records" / spec.uid).read("shim")
    os.kill(parent["pid"], signal.SIGKILL)
    wait_for(lambda: not processes.is_alive(parent["pid"], parent["start"]))
    # Who answers now has seen that death too: it reads the output before the program goes on.
    assert supervisor.seen(spec.uid).detail["pid"] == before.detail["pid"]
    (supervisor.home(spec) / "go").touch()
    found = supervisor.until(spec.uid, Seen.EXITED)
    assert (found.exit_code, found.reason) == (None, "unknown")
    assert supervisor.log(spec) == "one\ntwo\n"


def test_an_orphan_is_found_again_after_both_were_killed(supervisor):
    spec = supervisor.server()
    before = supervisor.ready(spec)
    os.kill(parent_of(supervisor, spec.uid), signal.SIGKILL)
    supervisor.restart()
    after = supervisor.until(spec.uid, Seen.READY)
    assert after.detail["pid"] == before.detail["pid"]
    supervisor.stop(spec.uid)
    assert processes_of(spec.uid) == set()


def test_a_detached_daemon_ends_even_when_the_parent_was_killed(supervisor):
    spec = supervisor.shell("setsid sh -c 'sleep 600 & exec sleep 600' & echo made; exec sleep 600")
    supervisor.ready(spec)
    wait_for(lambda: len(processes_of(spec.uid)) == 3)
    os.kill(parent_of(supervisor, spec.uid), signal.SIGKILL)
    time.sleep(0.05)
    supervisor.remove(spec.uid)
    assert processes_of(spec.uid) == set()


def rewrite(record: Record, name: str, **facts: object) -> None:
    owner = record.folder.stat()
    record.write(name, {**record.read(name), **facts})
    os.chown(record.folder / f"{name}.json", owner.st_uid, owner.st_gid)


def test_a_recycled_pid_is_never_signalled(supervisor):
    """The record names a pid that now belongs to somebody else: start times differ."""
    import subprocess

    spec = supervisor.shell("exec sleep 600")
    supervisor.ready(spec)
    supervisor.kill()
    record = Record(supervisor.state / "records" / spec.uid)
    for name in ("shim", "child"):
        facts = record.read(name)
        os.kill(facts["pid"], signal.SIGKILL)
    wait_for(lambda: processes_of(spec.uid) == set())
    innocent = subprocess.Popen(["sleep", "600"])
    try:
        for name in ("shim", "child"):
            rewrite(record, name, pid=innocent.pid)
        supervisor.start()
        assert supervisor.until(spec.uid, Seen.EXITED).reason == "unknown"
        supervisor.remove(spec.uid)
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def test_after_a_restart_of_the_machine_a_workload_is_lost(supervisor):
    spec = supervisor.shell("exec sleep 600")
    supervisor.ready(spec)
    supervisor.kill()
    record = Record(supervisor.state / "records" / spec.uid)
    (supervisor.state / "alive").touch()
    noted = record.read("child")["at"] + 100.0
    os.utime(supervisor.state / "alive", (noted, noted))
    for name in ("shim", "child"):  # in this order: a parent would record the end of its child
        os.kill(record.read(name)["pid"], signal.SIGKILL)
    for name in ("shim", "child"):
        rewrite(record, name, boot="another-boot")
    wait_for(lambda: processes_of(spec.uid) == set())
    supervisor.start()
    found = supervisor.until(spec.uid, Seen.EXITED)
    assert (found.reason, found.exit_code) == ("vanished", None)
    assert found.ended_at == pytest.approx(noted)  # when it was last known, not when we came back


@pytest.mark.parametrize("program", ["exec sleep 600", "trap 'exit 0' TERM; sleep 600 & wait"])
def test_g14_what_ends_as_its_machine_shuts_down_is_lost_and_did_not_end_by_itself(
    supervisor, program
):
    spec = supervisor.shell(program)
    supervisor.ready(spec)
    supervisor.kill()
    record = Record(supervisor.state / "records" / spec.uid)
    for name in ("shim", "child"):  # as init tells all processes
        os.kill(record.read(name)["pid"], signal.SIGTERM)
    wait_for(lambda: processes_of(spec.uid) == set())
    for name in ("shim", "child"):
        rewrite(record, name, boot="another-boot")
    supervisor.start()
    found = supervisor.until(spec.uid, Seen.EXITED)
    assert (found.reason, found.exit_code) == ("vanished", None)


def test_a_damaged_record_does_not_stop_the_others(supervisor):
    good, bad = supervisor.server(), supervisor.shell("exit 0")
    supervisor.ready(good)
    supervisor.ended(bad)
    supervisor.kill()
    (supervisor.state / "records" / bad.uid / "spec.json").write_text('{"uid": ')
    supervisor.start()
    assert supervisor.until(good.uid, Seen.READY)
    assert supervisor.seen(bad.uid).seen == Seen.MISSING
    supervisor.remove(bad.uid)


def test_a_watch_breaks_with_the_supervisor_and_begins_with_everything(supervisor):
    spec = supervisor.server()
    supervisor.ready(spec)
    watch = supervisor.driver.watch(stop=lambda: False)
    assert [o.uid for o in next(watch)] == [spec.uid]
    supervisor.kill()
    with pytest.raises(Unreachable):
        assert all(told == [] for told in watch)  # a sign of life from before
    with pytest.raises(Unreachable):
        supervisor.driver.observe([spec.uid])
    supervisor.start()
    assert [o.uid for o in next(supervisor.driver.watch(stop=lambda: False))] == [spec.uid]


def test_idle_costs_no_processor_time(ordinary):
    for _ in range(5):
        ordinary.ready(ordinary.shell("sleep 600"))
    pid = ordinary.process.pid

    def taken_in_two_seconds() -> float:
        before = processes.cpu_seconds(processes.stat(pid))
        time.sleep(2)
        return processes.cpu_seconds(processes.stat(pid)) - before

    # What the starts left to do on a busy machine is not idleness yet.
    wait_for(lambda: taken_in_two_seconds() <= 0.02)


def test_it_stays_small(ordinary):
    for _ in range(5):
        ordinary.ready(ordinary.shell("sleep 600"))
    with processes.PROC.joinpath(f"{ordinary.process.pid}/smaps_rollup").open() as file:
        resident = next(int(line.split()[1]) for line in file if line.startswith("Rss"))
    assert resident <= 20 * 1024
