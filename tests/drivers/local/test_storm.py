"""Random verbs against random SIGKILLs; afterwards nothing is doubled and nothing is left."""

import contextlib
import os
import random
import signal
import time

import pytest

from runtime.drivers.local.records import Record
from runtime.protocol import NotYet, Seen, Unreachable
from tests.drivers.local.harness import MODES, processes_of, wait_for

pytestmark = [
    pytest.mark.real,
    pytest.mark.long("a storm of kills; each kill point: drivers/local/test_kill.py"),
]

SECONDS = float(os.environ.get("BERTH_STORM_SECONDS", "6"))


@pytest.mark.parametrize("mode", MODES)
def test_e1_e11_a_storm_of_kills_leaves_the_truth(mode, make_supervisor):
    seed = int(os.environ.get("BERTH_STORM_SEED", random.randrange(10**6)))
    print("BERTH_STORM_SEED", seed)  # noqa: T201 - to run the same storm again
    chance = random.Random(seed)
    supervisor = make_supervisor(mode)
    first = [supervisor.server() for _ in range(4)]
    launches = {spec.uid: 1 for spec in first}
    homes = {spec.uid: spec.mounts for spec in first}

    def ensure(uid: str) -> None:
        launch = launches[uid]
        supervisor.driver.ensure(supervisor.server(uid=uid, launch=launch, mounts=homes[uid]))

    def relaunch(uid: str) -> None:
        launches[uid] += 1
        ensure(uid)

    def kill_parent(uid: str) -> None:
        record = Record(supervisor.state / "records" / uid)
        facts = record.read("shim") if record.is_locked() else None
        if facts:
            os.kill(facts["pid"], signal.SIGKILL)

    def kill_program(uid: str) -> None:
        for pid in processes_of(uid):
            os.kill(pid, signal.SIGKILL)

    acts = [
        *[ensure] * 4,
        *[relaunch] * 2,
        lambda uid: supervisor.driver.stop(uid, grace_s=0.2),
        supervisor.driver.remove,
        kill_parent,
        kill_program,
        lambda _: supervisor.restart(),
    ]
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        uid = chance.choice(first).uid
        with contextlib.suppress(NotYet, Unreachable, ProcessLookupError):
            chance.choice(acts)(uid)
        time.sleep(chance.random() * 0.05)

    for spec in first:
        uid = spec.uid
        launches[uid] += 1
        supervisor.finish(lambda uid=uid: supervisor.driver.stop(uid, grace_s=0.2))
        supervisor.finish(lambda uid=uid: ensure(uid))
        assert supervisor.until(uid, Seen.READY).launch == launches[uid]
        assert len(processes_of(uid)) == 1
        supervisor.remove(uid)
        assert processes_of(uid) == set()
        assert not (supervisor.home(spec) / "double").exists()
    assert list((supervisor.state / "records").iterdir()) == []
    wait_for(lambda: list((supervisor.state / "trash").iterdir()) == [])
    assert "Traceback" not in supervisor.messages()
