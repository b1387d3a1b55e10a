"""C11: a volume of very many files, made by a pod: measured, looked at and removed beside others.

How many is a matter of patience: BERTH_TEST_MANY_FILES; docs/dev/volumes.md.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.protocol import Seen
from runtime.spec import Mount
from tests.cluster.test_data import log_of, once, removed, wiped
from tests.cluster.test_loads import opened
from tests.cluster.test_measuring import measured
from tests.cluster.visitors import BASE, Person, portal_of_people, until
from tests.drivers.kubernetes.harness import Ground, ground_of, wait_for
from tests.drivers.local.test_c11_many_files import MANY, PER_FOLDER
from tests.support.cluster_state import cluster_state
from tests.support.clustered import KEY, ClusteredPortal, ok, pinned

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.long(
        "a flood; the bounds: dataplane/test_files_memory.py, drivers/kubernetes/test_measuring.py"
    ),
]
LATE_S = 300.0
ANSWERS_S = 5.0
TRIES = 3  # the machine may be busy with something else
PAGE = 100
FILL = f"""
import os
os.chdir("/volumes/many")
for number in range({MANY}):
    if number % {PER_FOLDER} == 0:
        os.mkdir(f"d{{number}}")
    os.close(os.open(f"d{{number - number % {PER_FOLDER}}}/{{number:07}}", os.O_CREAT | os.O_WRONLY, 0o600))
print("filled", flush=True)
"""


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = ground_of(data_image=pinned(cluster_state()["images"]["data"]))
    yield made
    made.close()


def best(act: Any) -> float:
    """How long the fastest of some tries took."""

    def once() -> float:
        began = time.monotonic()
        act()
        return time.monotonic() - began

    return min(once() for _ in range(TRIES))


def test_c11_very_many_files_of_a_pod_are_measured_and_removed_and_a_neighbour_answers(
    ground: Ground,
) -> None:
    neighbour = ground.spec()
    ground.driver.ensure(neighbour)
    ground.until(neighbour.uid, lambda o: o.seen == Seen.READY, seconds=LATE_S)
    volume = f"v{ground.namespace}"
    mounts = (Mount(volume, name="many"),)
    filler = once(ground, f"exec python3 -c '{FILL}'", mounts=mounts)
    ground.driver.ensure(filler)
    found = ground.until(filler.uid, lambda o: o.seen == Seen.EXITED, seconds=LATE_S)
    assert (found.exit_code, log_of(ground, filler)) == (0, "filled\n")
    removed(ground, filler.uid)

    said = measured(ground, volume)
    assert said.whole
    assert MANY * 8 < said.bytes < MANY * 4096  # a folder takes blocks for its names, a file none
    assert best(lambda: ground.call(neighbour.uid, "/")) < ANSWERS_S

    began = time.monotonic()
    wiped(ground, volume)
    print(f"[files] {MANY} files were gone after {time.monotonic() - began:.1f} s")  # noqa: T201
    assert best(lambda: ground.call(neighbour.uid, "/")) < ANSWERS_S
    assert ground.call(neighbour.uid, "/") == "ok"

    again = once(ground, "ls -A /volumes/many; echo nothing else", mounts=mounts)
    ground.driver.ensure(again)
    ground.until(again.uid, lambda o: o.seen == Seen.EXITED, seconds=LATE_S)
    assert log_of(ground, again) == "nothing else\n"
    removed(ground, again.uid)
    wiped(ground, volume)
    removed(ground, neighbour.uid)


@pytest.fixture
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    with portal_of_people(devcluster, "mf") as running:
        yield running


def made_of(ann: Person) -> str:
    body = {"name": "many", "size_mib": 2048, "cluster": KEY}
    path = (
        f"projects/demo/volumes/{ok(ann.api.post('projects/demo/volumes', json=body)).json()['id']}"
    )
    until(lambda: ann.api.get(path).json()["phase"] == "running", LATE_S)
    return path


def test_c11_a_folder_of_very_many_files_is_browsed_in_pages_and_its_volume_removed(
    portal: ClusteredPortal,
) -> None:
    ann = Person(portal, "ann")
    volume = made_of(ann)
    row = ann.launch(
        kind="container",
        image=portal.state["images"]["tool"]["reference"],
        name="filler",
        command=["sh", "-c", f"python3 -c '{FILL}'; exec sleep 600"],
        cpu_milli=500,
        memory_mib=256,
        volumes=["many"],
    )
    path = f"{BASE}/{row['id']}"
    wait_for(lambda: "filled" in ann.api.get(f"{path}/logs").json().get("text", ""), seconds=LATE_S)
    with contextlib.closing(opened(ann, volume)) as browser:

        def page(**params: Any) -> dict[str, Any]:
            said = ok(browser.get("list", params={"path": "d0", "limit": PAGE, **params}))
            assert len(said.content) < 200 * PAGE + 2000
            return dict(said.json())

        first = page()
        assert (len(first["entries"]), first["total"]) == (PAGE, min(MANY, PER_FOLDER))
        assert [e["name"] for e in first["entries"]][:2] == ["0000000", "0000001"]
        last = page(offset=first["total"] - 1)
        assert [e["name"] for e in last["entries"]] == [f"{first['total'] - 1:07}"]
        assert best(page) < ANSWERS_S
    ok(ann.api.delete(path))
    until(lambda: ann.api.get(path).status_code == 404, LATE_S)
    until(lambda: ann.api.delete(volume).status_code == 202, LATE_S)  # the browser lets go of it
    ok(ann.api.post(f"{volume}/purge"))
    until(lambda: ann.api.get(volume).status_code == 404, LATE_S)
    assert ok(ann.api.get(made_of(ann))).json()["name"] == "many"
