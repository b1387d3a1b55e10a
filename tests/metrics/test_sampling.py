"""Who is measured, whose a device is, and since when all is quiet."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import time_machine

from clusters.models import Claim, Cluster, Device, Hold
from common.clock import now
from metrics import sampling
from metrics.models import DEVICE_LENGTH, MinuteSample, Sample
from metrics.selectors import quiet_since
from runtime.protocol import Unreachable
from runtime.use_sources import DeviceUse, Holder, UseSource
from tests.engineapp.models import Thing
from tests.metrics.conftest import NOON

pytestmark = pytest.mark.django_db


class Driver:
    """Tells what a test wrote down, and what it was asked."""

    def __init__(self) -> None:
        self.told: dict[str, Mapping[str, float]] = {}
        self.devices: list[DeviceUse] = []
        self.holders: list[Holder] = []
        self.asked = 0
        self.away = False

    def usage(self, uids: Iterable[str]) -> Mapping[str, Mapping[str, float]]:
        self.asked += 1
        if self.away:
            raise Unreachable("away")
        return {uid: self.told[uid] for uid in uids if uid in self.told}

    def device_use(
        self, holders: Iterable[Holder], sources: Iterable[UseSource]
    ) -> Sequence[DeviceUse]:
        del sources
        self.holders = list(holders)
        if self.away:
            raise Unreachable("away")
        return self.devices


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, db: None) -> Driver:
    made = Driver()
    Cluster.objects.get_or_create(key="local", defaults={"name": "Here"})
    monkeypatch.setattr(sampling, "driver_for", lambda _key: made)
    return made


@pytest.fixture
def machine(driver: Driver) -> Cluster:
    row = Cluster.objects.get(key="local")
    for index in range(3):
        Device.objects.create(cluster=row, uuid=f"GPU-{index}", index=index, name="H100")
    return row


def running(key: str = "local", gpus: int = 0, **values: Any) -> Thing:
    return Thing.objects.create(cluster_key=key, phase="running", gpus=gpus, **values)


def given(cluster: Cluster, thing: Thing, *devices: str) -> None:
    claim = Claim.objects.create(
        cluster=cluster,
        workload_uid=thing.uid,
        workload_kind="thing",
        project_uid=thing.project_uid,
        gpus=len(devices),
        asked_at=now(),
        granted_at=now(),
    )
    for uuid in devices:
        Hold.objects.create(claim=claim, device=Device.objects.get(uuid=uuid))


def figures(uid: UUID) -> dict[str, tuple[float | None, float | None]]:
    rows = Sample.objects.filter(uid=uid)
    return {row.device: (row.gpu_utilisation, row.gpu_memory_mib) for row in rows}


def test_a_device_is_theirs_who_hold_it_and_the_clusters_when_nobody_does(
    driver: Driver, machine: Cluster
) -> None:
    one = running(gpus=2)
    given(machine, one, "GPU-0", "GPU-1")
    driver.told[str(one.uid)] = {"cpu_milli": 70.4, "memory_mib": 512.0}
    driver.devices = [
        DeviceUse("GPU-0", str(one.uid), 20, 100, simulated=True),
        DeviceUse("GPU-1", str(one.uid), 40, 50),
        DeviceUse("GPU-2", "", 0, 0),
    ]
    assert sampling.sample() == 1
    ids = ("GPU-0", "GPU-1")
    assert driver.holders == [Holder(str(one.uid), ("", ""), "", 2, ids, "thing")]
    assert figures(one.uid) == {"": (30.0, 150), "GPU-0": (20.0, 100), "GPU-1": (40.0, 50)}
    assert figures(machine.uid) == {"GPU-2": (0.0, 0)}
    whole = Sample.objects.get(uid=one.uid, device="")
    assert (whole.cpu_milli, whole.memory_mib, whole.simulated) == (70, 512, True)


def test_devices_of_a_machine_on_which_nothing_runs_are_measured_too(
    driver: Driver, machine: Cluster
) -> None:
    driver.devices = [DeviceUse("GPU-0", "", 3, None), DeviceUse("GPU-1", "", None, None)]
    assert sampling.sample() == 0
    assert figures(machine.uid) == {"GPU-0": (3.0, None)}, "of the other one nothing is known"
    Cluster.objects.update(enabled=False)
    assert sampling.sample() == 0
    assert Sample.objects.count() == 1


@pytest.mark.parametrize(
    "devices",
    [
        [DeviceUse("a", "u", 10, 5)],
        [DeviceUse("a", "u", 10, 5), DeviceUse("b", "u", None, None)],
        [DeviceUse("a", "u", 10, 5), DeviceUse("b", "u", 10, 5), DeviceUse("c", "u", 10, 5)],
        [],
    ],
    ids=["one lacks", "one unknown", "one too many", "none"],
)
def test_of_several_devices_nothing_is_known_unless_all_are(devices: list[DeviceUse]) -> None:
    assert sampling.together(devices, 2) == {}


def test_what_a_driver_does_not_tell_is_no_sample(driver: Driver) -> None:
    here, there = running(), running()
    running(desired="stopped")
    driver.told[str(here.uid)] = {"memory_mib": 9.0}
    assert sampling.sample() == 1
    (row,) = Sample.objects.all()
    assert (row.uid, row.cpu_milli, row.memory_mib) == (here.uid, None, 9)
    driver.away = True
    assert sampling.sample() == 0
    assert there.uid not in set(Sample.objects.values_list("uid", flat=True))


def test_counters_of_the_network_become_rates_and_one_that_began_anew_tells_nothing(
    driver: Driver,
) -> None:
    row = running()
    for at, received, sent in ((0, 1000, 0), (10, 6000, 50), (20, 100, 100), (200, 900, 200)):
        driver.told[str(row.uid)] = {"rx_bytes": received, "tx_bytes": sent}
        with time_machine.travel(NOON + timedelta(seconds=at), tick=False):
            sampling.sample()
    rates = list(Sample.objects.order_by("at").values_list("rx_rate", "tx_rate"))
    assert rates == [(None, None), (500.0, 5.0), (None, 5.0), (None, None)]


def test_quiet_counts_from_the_last_time_that_anything_computed_or_was_not_known(
    driver: Driver,
) -> None:
    row = running(gpus=1)
    busy, still, half = (
        {"cpu_milli": 900.0, "gpu_utilisation": 0.0},
        {"cpu_milli": 3.0, "gpu_utilisation": 0.0},
        {"cpu_milli": 3.0},
    )

    def at(minute: float, values: Mapping[str, float]) -> float | None:
        """Minutes of quiet at that moment, after a look that told these values."""
        driver.told[str(row.uid)] = {"cpu_milli": values["cpu_milli"]}
        rate = values.get("gpu_utilisation")
        driver.devices = [] if rate is None else [DeviceUse("GPU-0", str(row.uid), rate, 0)]
        with time_machine.travel(NOON + timedelta(minutes=minute), tick=False):
            sampling.sample()
            since = quiet_since([row.uid]).get(row.uid)
            return None if since is None else (now() - since).total_seconds() / 60

    driver_sees(row)
    assert at(0, half) is None
    assert at(1, still) == 0
    assert at(3, still) == 2
    assert at(4, busy) == 0
    assert at(6, still) == 2
    assert at(7, half) == 3  # a look at the GPU that failed
    assert at(8, still) == 4
    assert at(12, still) == 0  # for too long nobody knew
    assert at(14, {"cpu_milli": 3.0, "gpu_utilisation": 80.0}) == 0


def driver_sees(row: Thing) -> None:
    from runtime.models import ObservedWorkload

    ObservedWorkload.objects.create(
        cluster_key=row.cluster_key,
        uid=row.uid,
        seen="ready",
        data={"detail": {"namespace": "a", "pod": "p", "node": "n1"}},
        seen_at=now(),
    )


def test_a_name_of_a_device_that_no_column_holds_is_one_all_the_same(
    driver: Driver, machine: Cluster
) -> None:
    long, odd = "n" * 300, "a\x00b"
    driver.devices = [DeviceUse(name, "", 1, 1) for name in (long, odd)]
    sampling.sample()
    names = set(Sample.objects.values_list("device", flat=True))
    assert len(names) == 2
    assert all(len(name) <= DEVICE_LENGTH and name.isprintable() for name in names)


def test_machines_are_asked_each_turn_clusters_each_second_and_all_is_rolled_up(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster.objects.create(key="east", name="East", driver="kubernetes")
    asked = {"local": 0, "east": 0}
    here, there = running(), running("east")
    driver.told = {str(row.uid): {"cpu_milli": 1.0} for row in (here, there)}
    clock = [0.0]
    monkeypatch.setattr(sampling.time, "monotonic", lambda: clock[0])
    meter = sampling.Meter()
    for turn in range(7):
        clock[0] = turn * 10.0 + turn % 2 * 0.2
        with time_machine.travel(NOON + timedelta(seconds=clock[0]), tick=False):
            meter.tick()
    for uid, key in ((here.uid, "local"), (there.uid, "east")):
        asked[key] = Sample.objects.filter(uid=uid).count()
    assert asked == {"local": 7, "east": 4}
    assert sum(MinuteSample.objects.values_list("samples", flat=True)) == 11
