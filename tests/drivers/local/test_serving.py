"""What serves on one machine: so many processes, each at a port of its own, each for itself."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import urllib.request
from dataclasses import replace

import pytest

from runtime.protocol import NotYet, Observation, Seen, Unreachable
from runtime.spec import Mount, Probe, Serve, WorkloadSpec
from tests.drivers.local.harness import PYTHON, SERVER, Supervisor, processes_of, wait_for

pytestmark = pytest.mark.real


def endpoint(supervisor: Supervisor, replicas: int, **options: object) -> WorkloadSpec:
    command = (PYTHON, "-I", "-S", "-c", SERVER, "{port}")
    more = {"kind": "endpoint", "serve": Serve(replicas), "stop_grace_s": 1.0}
    made: WorkloadSpec = supervisor.spec(**{"command": command, **more, **options})
    return made


def scaled(supervisor: Supervisor, spec: WorkloadSpec, replicas: int) -> Observation:
    wanted = replace(spec, serve=Serve(replicas))

    def look() -> Observation | None:
        try:
            supervisor.driver.scale(wanted)
        except NotYet:
            return None
        found = supervisor.driver.observe([spec.uid])[spec.uid]
        ready = [one for one in found.replicas if one.seen == Seen.READY]
        return found if len(ready) == len(found.replicas) == replicas else None

    found: Observation = wait_for(look)
    return found


def answers(address: str) -> bool:
    with urllib.request.urlopen(f"http://{address}/", timeout=5) as answer:
        return bool(answer.status == 200)


def test_one_that_dies_leaves_the_others_and_is_begun_again_when_it_is_asked_for(
    supervisor: Supervisor,
) -> None:
    spec = endpoint(supervisor, 2, devices=("GPU-a", "GPU-b"))
    supervisor.driver.ensure(spec)
    before = scaled(supervisor, spec, 2)
    assert before.detail["devices"] == ["GPU-a", "GPU-b"]
    assert all(answers(one.address) for one in before.replicas)
    for pid in processes_of(f"{spec.uid}.0"):
        os.kill(pid, signal.SIGKILL)

    def look() -> Observation | None:
        found = supervisor.driver.observe([spec.uid])[spec.uid]
        return found if found.replicas[0].seen == Seen.EXITED else None

    alone = wait_for(look)
    assert (alone.seen, alone.address) == (Seen.READY, before.replicas[1].address)
    assert (alone.replicas[0].exit_code, alone.replicas[0].address) == (-9, "")
    again = scaled(supervisor, spec, 2)
    assert again.replicas[1].address == before.replicas[1].address
    assert answers(again.replicas[0].address)
    wait_for(lambda: supervisor.log(spec) == "serving\n" * 2)  # what it said before it died is kept


def test_a_supervisor_that_starts_anew_knows_how_many_are_wanted(supervisor: Supervisor) -> None:
    spec = endpoint(supervisor, 3)
    supervisor.driver.ensure(spec)
    scaled(supervisor, spec, 3)
    two = scaled(supervisor, spec, 2)
    wait_for(lambda: not processes_of(f"{spec.uid}.2"))
    supervisor.kill()
    supervisor.start()

    def same() -> bool:
        found = supervisor.driver.observe([spec.uid])[spec.uid]
        return [one.address for one in found.replicas] == [one.address for one in two.replicas]

    wait_for(same)
    assert scaled(supervisor, spec, 0).seen == Seen.READY
    wait_for(lambda: not processes_of(f"{spec.uid}.0"))
    supervisor.kill()
    supervisor.start()
    asleep = supervisor.driver.observe([spec.uid])[spec.uid]
    assert (asleep.seen, asleep.replicas) == (Seen.READY, ())
    (awake,) = scaled(supervisor, spec, 1).replicas
    assert answers(awake.address)


def test_all_that_ended_by_themselves_end_the_whole(supervisor: Supervisor) -> None:
    spec = endpoint(supervisor, 2, command=("/bin/sh", "-c", "echo no such model >&2; exit 4"))
    supervisor.driver.ensure(spec)

    def look() -> Observation | None:
        found = supervisor.driver.observe([spec.uid])[spec.uid]
        return found if found.seen == Seen.EXITED else None

    assert wait_for(look).exit_code == 4
    text = supervisor.driver.read_log(spec.uid, replica=1)[0].decode()
    assert "no such model" in text


def test_one_that_could_not_be_begun_hides_nobody(supervisor: Supervisor) -> None:
    other = supervisor.shell("exec sleep 60")
    supervisor.ready(other)
    spec = endpoint(supervisor, 1)
    supervisor.restart(killpoint="supervisor-recorded")  # dies between the record and the process
    with contextlib.suppress(Unreachable):
        supervisor.driver.ensure(spec)
    wait_for(lambda: supervisor.is_dead)
    supervisor.start()
    wait_for(lambda: supervisor.seen(spec.uid).seen == Seen.MISSING)
    told = {one.uid: one.seen for one in supervisor.driver.list_owned()}
    assert told == {other.uid: Seen.READY, spec.uid: Seen.MISSING}
    watched = next(supervisor.driver.watch(stop=lambda: False))
    assert {one.uid: one.seen for one in watched} == told
    assert supervisor.ready(spec).replicas[0].seen == Seen.READY


def test_a_record_that_nobody_can_read_hides_nobody(supervisor: Supervisor) -> None:
    other = supervisor.shell("exec sleep 60")
    supervisor.ready(other)
    supervisor.kill()
    for number in range(2):
        torn = supervisor.state / "records" / f"torn.{number}"
        torn.mkdir(mode=0o700)
        (torn / "spec.json").write_text('{"uid"')
        if supervisor.mode == "ordinary" and os.geteuid() == 0:
            owner = supervisor.state.stat()
            for path in (torn, torn / "spec.json"):
                os.chown(path, owner.st_uid, owner.st_gid)
    supervisor.start()
    told = {one.uid: one.seen for one in supervisor.driver.list_owned()}
    assert told == {other.uid: Seen.READY, "torn": Seen.MISSING}
    supervisor.remove("torn")
    assert [one.uid for one in supervisor.driver.list_owned()] == [other.uid]


def test_what_is_made_goes_on_when_its_launch_is_asked_for_with_another_number(
    supervisor: Supervisor,
) -> None:
    spec = endpoint(supervisor, 2)
    supervisor.driver.ensure(spec)
    before = scaled(supervisor, spec, 2)
    for number in (1, 3):
        supervisor.driver.ensure(replace(spec, serve=Serve(number)))
        found = supervisor.seen(spec.uid)
        assert [one.address for one in found.replicas] == [o.address for o in before.replicas]
        assert all(answers(one.address) for one in found.replicas)
    assert not (supervisor.state / "records" / f"{spec.uid}.2").exists()
    supervisor.stop(spec.uid)
    supervisor.driver.ensure(replace(spec, serve=Serve(3)))
    assert supervisor.seen(spec.uid).seen == Seen.EXITED
    assert not (supervisor.state / "records" / f"{spec.uid}.2").exists()


def test_one_that_lives_is_not_forgotten_while_another_is_made_again(
    supervisor: Supervisor,
) -> None:
    spec = endpoint(supervisor, 2)
    supervisor.driver.ensure(spec)
    scaled(supervisor, spec, 2)
    supervisor.restart(killpoint="supervisor-recorded")
    for pid in processes_of(f"{spec.uid}.0"):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: supervisor.seen(spec.uid).replicas[0].seen == Seen.EXITED)
    with contextlib.suppress(Unreachable):
        supervisor.driver.scale(spec)
    wait_for(lambda: supervisor.is_dead)
    supervisor.start()
    wait_for(lambda: supervisor.seen(spec.uid).replicas[0].seen == Seen.MISSING)
    one = replace(spec, serve=Serve(1))
    supervisor.driver.ensure(one)
    (left,) = scaled(supervisor, one, 1).replicas
    assert answers(left.address)
    wait_for(lambda: not processes_of(f"{spec.uid}.1"))


@pytest.mark.root
def test_what_is_stopped_while_more_of_it_is_made_stays_stopped(rooted: Supervisor) -> None:
    spec = endpoint(rooted, 1)
    rooted.driver.ensure(spec)
    scaled(rooted, spec, 1)
    home = spec.mounts[0]
    data = [Mount(f"v{n}-{spec.uid[:8]}", role="data", name=f"v{n}") for n in range(12)]
    more = replace(spec, serve=Serve(2), mounts=(home, *data))  # each has a group to be made
    scaling = threading.Thread(target=lambda: rooted.driver.scale(more))
    scaling.start()
    time.sleep(0.05)
    rooted.stop(spec.uid)
    scaling.join()
    assert rooted.seen(spec.uid).seen == Seen.EXITED
    assert not processes_of(f"{spec.uid}.1")


@pytest.mark.root
def test_another_launch_may_be_somebody_elses(rooted: Supervisor) -> None:
    """As of an endpoint that was taken over: the folders of before are another user's."""
    spec = endpoint(rooted, 1, mounts=())
    rooted.driver.ensure(spec)
    before = scaled(rooted, spec, 1)
    theirs = replace(spec, owner="bob", launch=2)

    def is_made() -> bool:
        with contextlib.suppress(NotYet):
            rooted.driver.ensure(theirs)
            return True
        return False

    wait_for(is_made)
    after = scaled(rooted, theirs, 1)
    assert (before.launch, after.launch) == (1, 2)
    assert answers(after.replicas[0].address)


def test_one_that_names_no_path_is_ready_when_it_listens(supervisor: Supervisor) -> None:
    refuses = (  # it answers 501 to everything
        "import http.server as h, sys; "
        "h.HTTPServer(('127.0.0.1', int(sys.argv[1])), h.BaseHTTPRequestHandler).serve_forever()"
    )
    command = (PYTHON, "-I", "-S", "-c", refuses, "{port}")
    spec = endpoint(supervisor, 1, command=command, probe=Probe(path=""))
    supervisor.driver.ensure(spec)
    assert scaled(supervisor, spec, 1).seen == Seen.READY
