"""What devices do, as exporters of Prometheus' text format tell it: which names mean what is data.

A ``UseSource`` says where an exporter is and what its figures are called; ``figures`` reads one
answer by it. An exporter's text is not trusted: a figure that can't be (not a number, negative,
above everything, of another time) makes its device unknown, and unknown is never 0.
"""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

_LABEL = r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"
_METRIC = rf'[a-zA-Z_:][a-zA-Z0-9_:]{{0,127}}(\{{({_LABEL}="[^"\\{{}},]{{1,100}}",?){{1,4}}\}})?'
_KUBE = r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_PAIR = rf"{_KUBE}=[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?"
_PERCENT = {"percent": 1.0, "ratio": 100.0}
_MIB = {"bytes": 2.0**-20, "KiB": 2.0**-10, "MiB": 1.0, "GiB": 2.0**10, "MB": 1e6 / 2**20}
_ALLOWED = {
    "pods": rf"{_PAIR}(,{_PAIR}){{0,4}}",
    "namespace": r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?",
    "port": r"[1-9][0-9]{0,4}",
    "path": r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,63}){1,8}",
    "utilisation": rf"({_METRIC})?",
    "utilisation_unit": "|".join(_PERCENT),
    "memory": rf"({_METRIC})?",
    "memory_unit": "|".join(_MIB),
    "pod_label": _LABEL,
    "namespace_label": _LABEL,
    "device_labels": rf"{_LABEL}(,{_LABEL}){{0,3}}",
}
_PATTERNS = {name: re.compile(pattern) for name, pattern in _ALLOWED.items()}
_LINE = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_SAYS = re.compile(rf'({_LABEL})="([^"]*)"')
MAX_LINE, MAX_SERIES = 4096, 5_000
MAX_MIB = 2.0**24
MAX_AGE_S = 180.0  # a figure that carries another time than ours says nothing of now
MAX_PORT = 65535

Device = tuple[str, ...]
Place = tuple[str, str]  # namespace and name of a pod
NOBODY: Place = ("", "")


class WrongFieldError(ValueError):
    """What was said of a source is not among what may be said."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


@dataclass(frozen=True)
class UseSource:
    """Where the exporters of one kind of device are, and what their figures are called."""

    pods: str  # label=value,… of the exporter's pods
    port: str
    utilisation: str = ""  # a metric, or metric{label="value"}
    memory: str = ""
    namespace: str = ""  # "": anywhere but in projects
    path: str = "/metrics"
    utilisation_unit: str = "percent"
    memory_unit: str = "MiB"
    pod_label: str = "pod"
    namespace_label: str = "namespace"
    device_labels: str = "device"  # together they tell one device from another


@dataclass(frozen=True)
class Holder:
    """A workload that holds ``devices`` of a node; ``ids``: these, where they are known.

    ``kind``: of the work; a simulated device does what such work does.
    """

    uid: str
    place: Place
    node: str
    devices: int
    ids: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class DeviceUse:
    """What one device does, and whose it is ("": nobody's). None: unknown.

    ``foreign``: a pod holds it that is not ours. ``shared``: several use it, and the figures are
    of the device, not of one of them. ``simulated``: a test or a demonstration says that it is
    there.
    """

    device: str
    uid: str = ""
    utilisation: float | None = None
    memory_mib: float | None = None
    shared: bool = False
    simulated: bool = False
    foreign: bool = False


@dataclass
class Figures:
    """Of one pod: each device once. None: it was told, and can't be."""

    utilisation: dict[Device, float | None]
    memory_mib: dict[Device, float | None]

    def add(self, other: Figures) -> None:
        for mine, theirs in (
            (self.utilisation, other.utilisation),
            (self.memory_mib, other.memory_mib),
        ):
            for device, value in theirs.items():
                _note(mine, device, value)

    def of(self, device: Device) -> Figures:
        """Return what is told of one device alone."""
        return Figures(
            {d: v for d, v in self.utilisation.items() if d == device},
            {d: v for d, v in self.memory_mib.items() if d == device},
        )

    @property
    def devices(self) -> set[Device]:
        return {*self.utilisation, *self.memory_mib}


def parse(values: Mapping[str, Any]) -> UseSource:
    """Return what the fields say; WrongFieldError for anything that is not on the list."""
    if unknown := set(values) - set(_ALLOWED):
        raise WrongFieldError(min(unknown))
    said = {name: str(value).strip() for name, value in values.items()}
    for name, value in said.items():
        if not _PATTERNS[name].fullmatch(value):
            raise WrongFieldError(name)
    for name in ("pods", "port"):
        if name not in said:
            raise WrongFieldError(name)
    if int(said["port"]) > MAX_PORT:
        raise WrongFieldError("port")
    if not (said.get("utilisation") or said.get("memory")):
        raise WrongFieldError("utilisation")
    return UseSource(**said)


def figures(lines: Iterable[str], source: UseSource) -> dict[Place, Figures]:
    """Return what one exporter says of each pod, and of devices that none has (``NOBODY``).

    ValueError when it says far too much.
    """
    rate, used = _metric(source.utilisation), _metric(source.memory)
    found: dict[Place, Figures] = defaultdict(lambda: Figures({}, {}))
    count = 0
    for line in lines:
        head = _LINE.match(line)
        if head is None or head[0] not in {rate[0], used[0]} or len(line) > MAX_LINE:
            continue
        count += 1
        if count > MAX_SERIES:
            raise ValueError("The exporter names too many devices.")
        _read(line, source, rate, used, found)
    return dict(found)


def _read(
    line: str,
    source: UseSource,
    rate: tuple[str, dict[str, str]],
    used: tuple[str, dict[str, str]],
    found: dict[Place, Figures],
) -> None:
    sample = _sample(line)
    if sample is None:
        return
    name, labels, value = sample
    place = (labels.get(source.namespace_label, ""), labels.get(source.pod_label, ""))
    device = tuple(labels.get(label, "") for label in source.device_labels.split(","))
    if any(place) != all(place) or not any(device):
        return
    if name == rate[0] and rate[1].items() <= labels.items():
        percent = _within(value * _PERCENT[source.utilisation_unit], 100.0)
        _note(found[place].utilisation, device, percent)
    if name == used[0] and used[1].items() <= labels.items():
        mib = _within(value * _MIB[source.memory_unit], MAX_MIB)
        _note(found[place].memory_mib, device, mib)


def _sample(line: str) -> tuple[str, Mapping[str, str], float] | None:
    try:
        for family in text_string_to_metric_families(line + "\n"):
            for sample in family.samples:
                at = sample.timestamp
                is_now = at is None or abs(float(at) - time.time()) <= MAX_AGE_S
                return sample.name, sample.labels, float(sample.value) if is_now else math.nan
    except (ValueError, KeyError, IndexError, OverflowError):
        return None
    return None


def _metric(text: str) -> tuple[str, dict[str, str]]:
    name, _brace, rest = text.partition("{")
    return name, dict(_SAYS.findall(rest))


def _within(value: float, most: float) -> float | None:
    """``value`` where it can be (a hundredth part times a hundred may be a hair too much)."""
    can_be = math.isfinite(value) and 0 <= value <= most * (1 + 1e-9)
    return min(value, most) if can_be else None


def _note(known: dict[Device, float | None], device: Device, value: float | None) -> None:
    """A device that is told several times counts as its busiest part; one lie and it is unknown."""
    before = known.get(device, 0.0)
    known[device] = None if value is None or before is None else max(before, value)
