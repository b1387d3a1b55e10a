"""What is known of every device, held or not, and what is not told of it."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import time_machine
from hypothesis import given
from hypothesis import strategies as st

from clusters.demand import Placed
from clusters.models import Cluster, Flavor, Node
from common.clock import now
from common.ids import new_uid
from metrics import sampling
from metrics.devices import Cell, on_nodes
from metrics.models import DeviceReading, Sample
from runtime.models import ObservedWorkload
from runtime.use_sources import DeviceUse
from tests.engineapp.models import Thing
from tests.metrics.conftest import NOON
from tests.metrics.test_sampling import Driver, driver, machine, running
from tests.metrics.test_sampling import given as held_by

__all__ = ["driver", "machine"]  # fixtures

A, B = new_uid(), new_uid()
LATER = NOON + timedelta(seconds=20)


def work(uid: UUID, gpus: int, flavor: str = "h100", node: str = "n1") -> Placed:
    return Placed("job", "east", uid, gpus, flavor, node)


def cells(
    told: list[DeviceUse],
    placed: list[Placed],
    before: dict[str, Cell] | None = None,
    others: dict[str, int] | None = None,
    offers: dict[str, int] | None = None,
) -> dict[str, Cell]:
    nodes = [("n1", offers or {"h100": 4}, others or {})]
    found = on_nodes("east", nodes, told, placed, before or {}, NOON if before is None else LATER)
    return {cell.device: cell for cell in found}


def holders(found: dict[str, Cell]) -> list[UUID | None]:
    return [found[name].uid for name in sorted(found)]


def test_without_an_exporter_a_node_has_as_many_devices_as_it_says_and_none_is_known() -> None:
    found = cells([], [work(A, 2)], others={"h100": 1})
    assert sorted(found) == [f"n1/h100-{n}" for n in range(4)]
    assert holders(found) == [A, A, None, None]
    assert [cell.foreign for cell in found.values()] == [False, False, True, False]
    assert {cell.utilisation for cell in found.values()} == {None}


def test_what_an_exporter_tells_of_a_device_is_that_devices() -> None:
    told = [
        DeviceUse("n1/GPU-a", str(A), 80, 100.4),
        DeviceUse("n1/GPU-b", "", 0, 0),
        DeviceUse("n1/GPU-c", "", 50, 7, foreign=True),
    ]
    found = cells(told, [work(A, 1)], others={"h100": 1})
    assert sorted(found) == ["n1/GPU-a", "n1/GPU-b", "n1/GPU-c", "n1/h100-0"]
    assert (found["n1/GPU-a"].uid, found["n1/GPU-a"].utilisation) == (A, 80)
    assert found["n1/GPU-a"].memory_used_mib == 100
    assert found["n1/GPU-b"].is_free
    assert found["n1/GPU-c"].foreign
    assert found["n1/h100-0"].is_free
    assert found["n1/h100-0"].at is None


def test_e19_a_device_of_which_nobody_tells_who_has_it_shows_no_figure_of_another() -> None:
    """An exporter that maps no pods: work holds one of the two, and which is not known."""
    told = [DeviceUse("n1/GPU-a", "", 90, 5), DeviceUse("n1/GPU-b", "", 10, 5)]
    found = cells(told, [work(A, 1)], offers={"h100": 2})
    (mine,) = [cell for cell in found.values() if cell.uid == A]
    assert (mine.utilisation, mine.memory_used_mib, mine.at) == (None, None, None)


def test_e19_an_exporter_that_is_gone_leaves_names_and_the_age_of_what_it_said() -> None:
    told = [DeviceUse(f"n1/GPU-{n}", str(A) if n < 2 else "", 40, 5) for n in range(4)]
    before = cells(told, [work(A, 2)])
    found = cells([], [work(A, 2)], before)
    assert sorted(found) == sorted(before)
    assert holders(found) == holders(before)
    assert {cell.at for cell in found.values()} == {NOON}
    taken_over = cells([], [work(B, 2)], before)
    assert [cell.utilisation for cell in taken_over.values() if cell.uid == B] == [None, None]
    left = cells([], [], before)
    assert left["n1/GPU-0"].utilisation is None, "what its holder did is over"


def test_a_device_that_two_hold_is_one_row_for_each() -> None:
    told = [DeviceUse("n1/0", str(one), 60, 5, shared=True) for one in (A, B)]
    found = cells(told, [work(A, 1), work(B, 1)], offers={"h100": 2})
    assert sorted(cell.uid for cell in found.values() if cell.uid) == sorted([A, B])
    assert all(cell.shared for cell in found.values())


@given(
    st.integers(0, 8),
    st.lists(st.tuples(st.sampled_from([A, B, None]), st.booleans()), max_size=8),
    st.integers(0, 6),
    st.integers(0, 6),
    st.integers(0, 3),
)
def test_no_device_is_lost_doubled_or_given_twice(
    offered: int, said: list[tuple[UUID | None, bool]], a: int, b: int, others: int
) -> None:
    told = [
        DeviceUse(f"n1/{n}", str(uid or ""), 50, 1, foreign=uid is None and foreign)
        for n, (uid, foreign) in enumerate(said)
    ]
    placed = [work(uid, n) for uid, n in ((A, a), (B, b)) if n]
    found = cells(told, placed, others={"h100": others}, offers={"h100": max(1, offered)})
    assert len(found) == max(1, offered, len(told))
    mine = [cell for cell in found.values() if cell.uid == A]
    assert len(mine) <= max(a, sum(uid == A for uid, _ in said))
    if offered >= len(told) and a + b + others <= offered and not told:
        assert len(mine) == a
    for cell in found.values():
        if cell.utilisation is not None:
            index = int(cell.device.rpartition("/")[2])
            assert said[index][0] == cell.uid, "only figures that were told of this holder"


@pytest.mark.django_db
def test_every_device_of_a_machine_is_read_with_its_holder(driver: Driver, machine: Any) -> None:
    one = running(gpus=1)
    held_by(machine, one, "GPU-0")
    driver.devices = [
        DeviceUse("GPU-0", str(one.uid), 20, 100, simulated=True),
        DeviceUse("GPU-1", "", None, None),
        DeviceUse("GPU-2", "", 0, 0),
    ]
    for _ in range(2):  # again: the same rows
        sampling.sample()
    rows = {row.device: row for row in DeviceReading.objects.all()}
    assert len(rows) == 3
    assert (rows["GPU-0"].uid, rows["GPU-0"].utilisation) == (one.uid, 20.0)
    assert rows["GPU-0"].since is not None
    assert (rows["GPU-1"].utilisation, rows["GPU-1"].at) == (None, None)
    assert (rows["GPU-2"].utilisation, rows["GPU-2"].uid) == (0.0, None)
    driver.away = True
    machine.devices.filter(uuid="GPU-2").update(healthy=False)
    sampling.sample()
    row = DeviceReading.objects.get(device="GPU-2")
    assert (row.healthy, row.utilisation, row.at) == (False, None, None)


@pytest.mark.django_db
def test_devices_of_a_cluster_are_read_where_nothing_runs_and_each_replica_is_asked_of(
    driver: Driver,
) -> None:
    east = Cluster.objects.create(key="east", name="East", driver="kubernetes", kinds={"h100": {}})
    Flavor.objects.get_or_create(name="h100", defaults={"label": "H100", "memory_mib": 81920})
    for name in ("n1", "n2"):
        labels = {"berth.dev/simulated-gpu": "true"} if name == "n2" else {}
        Node.objects.create(
            cluster=east, name=name, ready=True, offers={"h100": 2}, labels=labels, seen_at=now()
        )
    sampling.sample()
    assert DeviceReading.objects.filter(cluster_key="east", uid=None).count() == 4
    one: Thing = running("east", gpus=2, gpu_flavor="h100")
    data = {
        "detail": {"namespace": "berth-a", "node": "n1"},
        "replicas": [
            {"node": "n1", "pod": "j-0", "seen": "ready"},
            {"node": "n2", "pod": "j-1", "seen": "ready"},
            {"node": "n2", "pod": "j-2", "seen": "exited"},
        ],
    }
    ObservedWorkload.objects.create(uid=one.uid, cluster_key="east", data=data, seen_at=now())
    driver.devices = [
        DeviceUse(f"{node}/GPU-{n}", str(one.uid), 40, 5) for node in ("n1", "n2") for n in (0, 1)
    ]
    with time_machine.travel(NOON, tick=False):
        sampling.sample()
    assert [(h.place, h.node, h.devices) for h in driver.holders] == [
        (("berth-a", "j-0"), "n1", 2),
        (("berth-a", "j-1"), "n2", 2),
    ]
    whole = Sample.objects.get(uid=one.uid, device="")
    assert (whole.gpu_utilisation, whole.gpu_memory_mib) == (40.0, 20)
    assert set(DeviceReading.objects.values_list("uid", "memory_mib")) == {(one.uid, 81920)}
    marked = DeviceReading.objects.filter(simulated=True).values_list("node", flat=True)
    assert set(marked) == {"n2"}
