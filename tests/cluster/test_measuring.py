"""Sizes of volumes on the real cluster: as much as the data takes, and nobody else's word."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.capabilities.volumes import Measured
from runtime.drivers.kubernetes import measuring
from runtime.protocol import NotYet, Seen
from runtime.spec import Mount, Placement
from tests.cluster.test_data import ended, log_of, once, removed, wiped
from tests.drivers.kubernetes.harness import Ground, ground_of, wait_for
from tests.support.cluster_state import cluster_state
from tests.support.clustered import pinned

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.long("what is asked and believed: drivers/kubernetes/test_measuring.py"),
]
MIB = 2**20
LATE_S = 180.0


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = ground_of(data_image=pinned(cluster_state()["images"]["data"]))
    yield made
    made.close()


def measured(ground: Ground, volume: str) -> Measured:
    def look() -> Measured | None:
        try:
            return ground.driver.measure_volume(volume, Placement())
        except NotYet:
            return None

    found: Measured = wait_for(look, seconds=LATE_S, every=0.2)
    return found


def fill(ground: Ground, volume: str, script: str) -> str:
    spec = once(ground, f"cd /volumes/data; {script}", mounts=(Mount(volume, name="data"),))
    assert ended(ground, spec).exit_code == 0
    said = log_of(ground, spec)
    removed(ground, spec.uid)
    return said


def job_of(ground: Ground, volume: str) -> Any:
    return ground.kube.get("batch/v1", "Job", measuring.job_name(volume), ground.namespace)


def test_it_says_what_the_data_takes_and_follows_it(ground: Ground) -> None:
    volume = f"v{ground.namespace}"
    said = fill(
        ground,
        volume,
        "mkdir -p a/b .berth/trash; head -c 7340032 /dev/urandom > a/b/one; ln a/b/one two;"
        " head -c 1048576 /dev/urandom > .berth/trash/gone; ln -s / out; mkfifo pipe; sync;"
        " du -s -x --block-size=1 .",
    )
    found = measured(ground, volume)
    assert (found.bytes, found.whole) == (int(said.split()[0]), True)
    assert 8 * MIB <= found.bytes < 9 * MIB
    wait_for(lambda: job_of(ground, volume) is None, seconds=LATE_S, every=0.2)
    fill(ground, volume, "rm -r a two; sync; echo done")
    after = measured(ground, volume)
    assert MIB <= after.bytes < 2 * MIB
    wiped(ground, volume)


def test_a_volume_in_use_is_measured_beside_its_work(ground: Ground) -> None:
    volume = f"v{ground.namespace}"
    script = "cd /volumes/data; head -c 3145728 /dev/urandom > x; sync; echo ready; sleep 600"
    spec = once(ground, script, mounts=(Mount(volume, name="data"),))
    ground.driver.ensure(spec)
    ground.until(spec.uid, lambda o: o.seen == Seen.READY, seconds=LATE_S)
    wait_for(lambda: b"ready" in ground.driver.read_log(spec.uid)[0], seconds=LATE_S, every=0.2)
    began = time.monotonic()
    assert 3 * MIB <= measured(ground, volume).bytes < 4 * MIB
    print(f"[measure] {time.monotonic() - began:.1f} s from the question to the answer")  # noqa: T201
    assert ground.seen(spec.uid).seen == Seen.READY
    removed(ground, spec.uid)
    wiped(ground, volume)


def test_a_volume_that_goes_does_not_wait_for_its_measurement(ground: Ground) -> None:
    volume = f"v{ground.namespace}"
    fill(ground, volume, "mkdir many; cd many; seq 1 20000 | xargs touch; echo done")
    with pytest.raises(NotYet):
        ground.driver.measure_volume(volume, Placement())
    ground.driver.end_measuring(volume)
    wiped(ground, volume)
    wait_for(lambda: job_of(ground, volume) is None, seconds=LATE_S, every=0.2)
