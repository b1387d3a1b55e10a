"""Measuring what runs and the devices that it holds: the duty of one worker at a time.

Each cluster is asked once for all its work and all its devices. A device's figures belong to the
work that holds it at that moment, as the queue of the machine gave it or the exporter of its node
tells it. What was not told is unknown; of work that holds several devices, so is the whole when one
is.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, Q, Value, When

from clusters.models import Cluster, Device, Hold, Node
from clusters.registry import driver_for
from clusters.selectors import use_sources
from common.clock import now
from metrics import bulk, rollups
from metrics.devices import store as devices_store
from metrics.models import DEVICE_LENGTH, FRESH, Quiet, Sample
from runtime import reconcilers
from runtime.capabilities.clusters import SupportsDeviceUse, SupportsMetrics
from runtime.models import ObservedWorkload
from runtime.protocol import Desired, DriverError, Phase, Seen
from runtime.use_sources import DeviceUse, Holder

log = structlog.get_logger(__name__)

MACHINE_EVERY_S = 10.0
CLUSTER_EVERY_S = 20.0  # what measures there does so every 15 to 30 s
MINUTE_EVERY_S, HOUR_EVERY_S = 60.0, 600.0
CPU_BUSY = 50  # thousandths of a CPU: a server that only waits, with a page open, takes less
GPU_BUSY = 5.0  # percent: less is a display or a stray process
_COUNTED = timedelta(minutes=2)  # older counters give no rate of now
_BATCH = 400

Figures = Mapping[str, float]


class Work(NamedTuple):
    """What runs, and how many devices it asked for, each replica by itself."""

    uid: UUID
    gpus: int
    kind: str = ""


class Row(NamedTuple):
    """The columns of a ``Sample``."""

    uid: UUID
    device: str
    at: datetime
    cpu_milli: int | None = None
    memory_mib: int | None = None
    rx_rate: float | None = None
    tx_rate: float | None = None
    rx_bytes: int | None = None
    tx_bytes: int | None = None
    gpu_utilisation: float | None = None
    gpu_memory_mib: int | None = None
    shared: bool = False
    simulated: bool = False


class Meter:
    """Measures each cluster in its turn, rolls up, and forgets what is old."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def tick(self) -> None:
        def is_due(cluster: Cluster) -> bool:
            here = not cluster.runs_images
            every_s = MACHINE_EVERY_S if here else CLUSTER_EVERY_S
            return self._is_due(f"cluster:{cluster.key}", every_s)

        sample(is_due)
        if self._is_due("minute", MINUTE_EVERY_S):
            rollups.roll_up(rollups.MINUTE)
            rollups.forget_old()
        if self._is_due("hour", HOUR_EVERY_S):
            rollups.roll_up(rollups.HOUR)

    def _is_due(self, what: str, every_s: float) -> bool:
        at = time.monotonic()
        if at < self._next.get(what, 0.0):
            return False
        self._next[what] = at + every_s - 1.0  # ticks come a little early or late
        return True


def sample(is_due: Callable[[Cluster], bool] = lambda _cluster: True) -> int:
    """Ask each cluster whose turn it is; return how many workloads were measured."""
    running = _running()
    devices = Device.objects.filter(cluster=OuterRef("pk"))
    nodes = Node.objects.filter(cluster=OuterRef("pk")).exclude(offers={})
    clusters = Cluster.objects.annotate(is_machine=Exists(devices), has_nodes=Exists(nodes)).filter(
        Q(key__in=list(running)) | Q(is_machine=True) | Q(has_nodes=True), enabled=True
    )
    return sum(
        _sample(row, running.get(row.key, []), is_machine=row.is_machine, has_nodes=row.has_nodes)
        for row in clusters.order_by("key")
        if is_due(row)
    )


def _running() -> dict[str, list[Work]]:
    """Return what runs by cluster, of every kind of work; one query for each table."""
    found: dict[str, list[Work]] = defaultdict(list)
    for table, own in reconcilers.tables():
        names = {field.name for field in table.model._meta.get_fields()}  # noqa: SLF001 - any model
        if not {"cluster_key", "cpu_milli"} <= names:
            continue  # no work: a project, a volume
        rows = table.filter(
            phase=Phase.RUNNING, desired=Desired.RUNNING, deleted_at__isnull=True
        ).annotate(devices=F("gpus") if "gpus" in names else Value(0))
        columns = ("cluster_key", "uid", "devices", "uid" if own else "kind")
        for key, uid, gpus, kind in rows.values_list(*columns):
            found[key].append(Work(uid, gpus, own or kind))
    return found


def _sample(cluster: Cluster, work: Sequence[Work], *, is_machine: bool, has_nodes: bool) -> int:
    """``is_machine``: its devices are known by name; ``has_nodes``: how many each has is."""
    key = cluster.key
    has_devices = is_machine or has_nodes
    told, devices, holders = _ask(key, work, has_devices=has_devices)
    held: dict[str, list[DeviceUse]] = defaultdict(list)
    for device in devices:
        held[device.uid].append(device)
    counts: Counter[str] = Counter()
    for holder in holders:
        counts[holder.uid] += holder.devices
    figures = {
        one.uid: {
            **told.get(str(one.uid), {}),
            **together(held[str(one.uid)], counts[str(one.uid)] or one.gpus),
        }
        for one in work
    }
    at = now()
    rates = _rates(figures, at)
    samples = [
        Row(
            uid,
            "",
            at,
            **{
                name: _whole(values.get(name))
                for name in ("cpu_milli", "memory_mib", "rx_bytes", "tx_bytes", "gpu_memory_mib")
            },
            gpu_utilisation=values.get("gpu_utilisation"),
            shared=any(device.shared for device in held[str(uid)]),
            simulated=any(device.simulated for device in held[str(uid)]),
            **rates.get(uid, {}),
        )
        for uid, values in figures.items()
        if values
    ]
    samples += [
        Row(
            UUID(device.uid) if device.uid else cluster.uid,
            device.device,
            at,
            gpu_utilisation=device.utilisation,
            gpu_memory_mib=_whole(device.memory_mib),
            shared=device.shared,
            simulated=device.simulated,
        )
        for device in devices
        if (device.utilisation, device.memory_mib) != (None, None)
    ]
    if not samples and not has_devices:
        return 0
    with transaction.atomic():
        rollups.progress_locked()
        if samples:
            bulk.add(Sample, Row._fields, samples)
            _note_quiet(work, figures, at)
        if has_devices:
            devices_store(cluster, devices, at, is_machine=is_machine)
    return sum(bool(values) for values in figures.values())


def _ask(
    key: str, work: Sequence[Work], *, has_devices: bool
) -> tuple[Mapping[str, Figures], list[DeviceUse], list[Holder]]:
    """Return what its driver tells of work and of devices, and whose these are."""
    holders = _holders(key, work)
    try:
        driver = driver_for(key)
    except DriverError as error:
        log.info("usage.unknown", cluster=key, error=str(error))
        return {}, [], holders
    told = _usage(driver, key, work) if work else {}
    devices: list[DeviceUse] = []
    if (holders or has_devices) and isinstance(driver, SupportsDeviceUse):
        try:
            found = driver.device_use(holders, use_sources(key))
            devices = [replace(one, device=_name_of(one.device)) for one in found]
        except DriverError as error:
            log.info("usage.devices_unknown", cluster=key, error=str(error))
    return told, devices, holders


def _usage(driver: Any, key: str, work: Sequence[Work]) -> Mapping[str, Figures]:
    if not isinstance(driver, SupportsMetrics):
        return {}
    try:
        return driver.usage([str(one.uid) for one in work])
    except DriverError as error:
        log.info("usage.unknown", cluster=key, error=str(error))
        return {}


def _holders(key: str, work: Sequence[Work]) -> list[Holder]:
    """Return who holds devices: as the machine's queue gave them, or where the watch saw them."""
    asked = {str(one.uid): one for one in work if one.gpus}
    given: dict[str, list[str]] = defaultdict(list)
    for holder, device in Hold.objects.filter(
        claim__cluster__key=key, claim__granted_at__isnull=False
    ).values_list("claim__workload_uid", "device__uuid"):
        given[str(holder)].append(device)
    seen = ObservedWorkload.objects.filter(cluster_key=key, uid__in=list(asked))
    data = {str(uid): told for uid, told in seen.values_list("uid", "data")}
    found = []
    for uid in {**asked, **given}:
        told, kind = data.get(uid, {}), asked[uid].kind if uid in asked else ""
        detail, ids = told.get("detail") or {}, tuple(given[uid]) if uid in given else ()
        space, alone = str(detail.get("namespace", "")), [detail] if detail or ids else []
        for pod in alone if ids else told.get("replicas") or alone:
            if pod.get("seen") != Seen.EXITED:
                place, node = (space, str(pod.get("pod") or "")), str(pod.get("node") or "")
                count = len(ids) if ids else asked[uid].gpus
                found.append(Holder(uid, place, node, count, ids, kind))
    return found


def together(devices: Collection[DeviceUse], count: int) -> dict[str, float]:
    """Return mean utilisation and all memory of ``count`` devices; what one lacks is unknown."""
    found: dict[str, float] = {}
    rates = [one.utilisation for one in devices if one.utilisation is not None]
    memory = [one.memory_mib for one in devices if one.memory_mib is not None]
    if count and len(rates) == len(devices) == count:
        found["gpu_utilisation"] = round(sum(rates) / count, 3)
    if count and len(memory) == len(devices) == count:
        found["gpu_memory_mib"] = round(sum(memory), 3)
    return found


def _rates(figures: Mapping[UUID, Figures], at: datetime) -> dict[UUID, dict[str, Any]]:
    """Return bytes a second since the sample before; a counter that began anew tells nothing."""
    counted = [uid for uid, values in figures.items() if values.keys() & {"rx_bytes", "tx_bytes"}]
    if not counted:
        return {}
    rows = Sample.objects.filter(uid__in=counted, device="", at__gte=at - _COUNTED, at__lt=at)
    before = {row[0]: row for row in rows.order_by("at").values_list("uid", "at", *_COUNTERS)}
    found: dict[UUID, dict[str, float]] = defaultdict(dict)
    for uid, then, *counts in before.values():
        for name, count in zip(_COUNTERS, counts, strict=True):
            value = figures[uid].get(name)
            if value is not None and count is not None and value >= count:
                rate = (value - count) / (at - then).total_seconds()
                found[uid][name.replace("bytes", "rate")] = rate
    return found


_COUNTERS = ("rx_bytes", "tx_bytes")


def _note_quiet(work: Sequence[Work], figures: Mapping[UUID, Figures], at: datetime) -> None:
    """Keep since when each is quiet; of a time of which nobody knows, nobody says that it was."""
    known, busy = [], []
    for one in work:
        values = figures[one.uid]
        wanted = ("cpu_milli", "gpu_utilisation") if one.gpus else ("cpu_milli",)
        if all(name in values for name in wanted):
            known.append(one.uid)
        if values.get("cpu_milli", 0) >= CPU_BUSY or values.get("gpu_utilisation", 0) >= GPU_BUSY:
            busy.append(one.uid)
    Quiet.objects.bulk_create(
        [Quiet(uid=uid, known_at=at, since=at) for uid in known],
        ignore_conflicts=True,
        batch_size=_BATCH,
    )
    after_gap = Case(When(known_at__lt=at - FRESH, then=Value(at)), default=F("since"))
    for start in range(0, len(known), _BATCH):
        Quiet.objects.filter(uid__in=known[start : start + _BATCH]).update(
            known_at=at, since=after_gap
        )
    for start in range(0, len(busy), _BATCH):
        Quiet.objects.filter(uid__in=busy[start : start + _BATCH]).update(since=at)


def _whole(value: float | None) -> int | None:
    return None if value is None else max(0, round(value))


def _name_of(device: str) -> str:
    """Return the device's name, or what stands for one that no column holds."""
    if len(device) <= DEVICE_LENGTH and device.isprintable():
        return device
    return "sha256:" + hashlib.sha256(device.encode("utf-8", "replace")).hexdigest()
