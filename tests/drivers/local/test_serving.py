"""What serves on one machine: so many processes, each at a port of its own, each for itself."""

from __future__ import annotations

import os
import signal
import urllib.request
from dataclasses import replace

import pytest

from runtime.protocol import NotYet, Observation, Seen, Serve, WorkloadSpec
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
