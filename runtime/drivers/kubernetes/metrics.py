"""What pods and devices use. Unknown is unknown, never 0.

Pods: from metrics.k8s.io where the cluster has it. Devices, held or not: from the exporters on the
nodes. These are the operator's pods, never a project's: whoever could start one
would tell of others. One is believed about pods of its own node only. It is asked at its address,
bounded in time and size; whatever goes wrong, nothing is known.
"""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import structlog

from common.outbound import trust
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.access import PodAddresses
from runtime.drivers.kubernetes.answers import Answer
from runtime.drivers.kubernetes.client import KubeClient, path_of
from runtime.drivers.kubernetes.inspection import Locator
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import DriverError
from runtime.use_sources import (
    NOBODY,
    Device,
    DeviceUse,
    Figures,
    Holder,
    Place,
    UseSource,
    figures,
)

_API = "metrics.k8s.io/v1beta1"
_FEW = 4
_OK = 200
_SUFFIX = {
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
}


class Metrics:
    """``SupportsMetrics`` of one cluster."""

    def __init__(self, client: KubeClient, options: KubernetesOptions, locator: Locator) -> None:
        self._client = client
        self._selector = names.selector(options.namespace_prefix)
        self._locator = locator

    def usage(self, uids: Iterable[str]) -> Mapping[str, Mapping[str, float]]:
        wanted = list(dict.fromkeys(uids))
        if len(wanted) <= _FEW:
            samples = [(uid, self._one(uid)) for uid in wanted]
        else:
            known = self._all()
            samples = [(uid, known.get(names.label_value(uid), [])) for uid in wanted]
        return {uid: found for uid, rows in samples if (found := _sum(rows))}

    def _one(self, uid: str) -> list[Mapping[str, Any]]:
        place = self._locator.workload(uid)
        if place is None:
            return []
        asked = {"labelSelector": f"{names.UID}={names.label_value(uid)}"}
        return self._rows(self._client.read(path_of(_API, "pods", "", place[0]), asked))

    def _all(self) -> dict[str, list[Mapping[str, Any]]]:
        found: dict[str, list[Mapping[str, Any]]] = {}
        for row in self._rows(
            self._client.read(path_of(_API, "pods"), {"labelSelector": self._selector})
        ):
            uid = (row["metadata"].get("labels") or {}).get(names.UID, "")
            found.setdefault(uid, []).append(row)
        return found

    def _rows(self, answer: Answer) -> list[Mapping[str, Any]]:
        return (answer.json() or {}).get("items") or [] if answer.status == _OK else []


def _sum(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return what all its pods use together."""
    used = [c.get("usage") or {} for row in rows for c in row.get("containers") or []]
    if not used:
        return {}
    cpu = sum(quantity(str(u.get("cpu", "0"))) for u in used)
    memory = sum(quantity(str(u.get("memory", "0"))) for u in used)
    return {"cpu_milli": round(cpu * 1000, 3), "memory_mib": round(memory / 2**20, 3)}


def quantity(text: str) -> float:
    """Return a Kubernetes quantity as a number; 0 for what is none."""
    for suffix in sorted(_SUFFIX, key=len, reverse=True):
        if text.endswith(suffix):
            return _number(text.removesuffix(suffix)) * _SUFFIX[suffix]
    return _number(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


log = structlog.get_logger(__name__)

KNOWN_S, NONE_S = 300.0, 60.0  # so long the pods of a source, or that it has none, are remembered
MAX_TEXT = 4 * 1024 * 1024
_AT_ONCE = 16
_WITHIN_S = 3.0  # one exporter, all in all
_PASS_S = 10.0
_TIMEOUT = httpx.Timeout(2.0, connect=1.0)


@dataclass(frozen=True)
class Exporter:
    node: str
    url: str


class Exporters:
    """``SupportsDeviceUse`` of one cluster."""

    def __init__(
        self, client: KubeClient, options: KubernetesOptions, addresses: PodAddresses
    ) -> None:
        self._client = client
        self._prefix = options.namespace_prefix
        self._addresses = addresses
        self._lock = threading.Lock()
        self._known: dict[UseSource, tuple[float, list[Exporter]]] = {}

    def use(self, holders: Iterable[Holder], sources: Iterable[UseSource]) -> list[DeviceUse]:
        """Return what devices do, held or not; those of which nothing is told are left out.

        One that several of these hold comes once for each of them.
        """
        by_place = {holder.place: holder for holder in holders if holder.devices and holder.node}
        nodes = {holder.node for holder in by_place.values()}
        asked = [
            (source, exporter) for source in dict.fromkeys(sources) for exporter in self._of(source)
        ]
        random.shuffle(asked)  # whoever has no turn in time is another one in the next pass
        asked.sort(key=lambda one: one[1].node not in nodes)  # what is held matters most
        found: dict[tuple[str, Device], dict[Place, Figures]] = defaultdict(dict)
        for exporter, told in self._ask(asked):
            for place, seen in told.items():
                for device in seen.devices:
                    known = found[exporter.node, device]
                    known.setdefault(place, Figures({}, {})).add(seen.of(device))
        return [
            one
            for (node, device), places in sorted(found.items())
            for one in _uses_of(node, device, places, by_place)
        ]

    def _ask(
        self, asked: list[tuple[UseSource, Exporter]]
    ) -> list[tuple[Exporter, dict[Place, Figures]]]:
        if not asked:
            return []
        end = time.monotonic() + _PASS_S
        with ThreadPoolExecutor(min(_AT_ONCE, len(asked)), "exporters") as pool:
            told = pool.map(lambda one: _told(one[0], one[1], end), asked)
            answers = list(zip(asked, told, strict=True))
        with self._lock:
            for source in {one[0] for one, seen in answers if seen is None}:
                self._known.pop(source, None)  # it may have moved
        return [(one[1], seen) for one, seen in answers if seen is not None]

    # --- where they are -------------------------------------------------------------------------

    def _of(self, source: UseSource) -> list[Exporter]:
        with self._lock:
            at, known = self._known.get(source, (float("-inf"), []))
        if time.monotonic() - at < (KNOWN_S if known else NONE_S):
            return known
        try:
            rows = self._client.list(
                "v1", "pods", source.namespace, source.pods, "status.phase=Running"
            )
            known = [one for row in rows if (one := self._exporter(row, source))]
        except DriverError as error:
            log.info("exporters.not_listed", pods=source.pods, error=str(error))
        with self._lock:
            self._known[source] = (time.monotonic(), known)
        return known

    def _exporter(self, row: Mapping[str, Any], source: UseSource) -> Exporter | None:
        address = (row.get("status") or {}).get("podIP") or ""
        node = (row.get("spec") or {}).get("nodeName") or ""
        meta = row["metadata"]
        if meta["namespace"].startswith(self._prefix) or not address or not node:
            return None
        if why := self._addresses.refusal(address):
            log.warning("exporters.refused", pod=meta["name"], why=why)
            return None
        host = f"[{address}]" if ":" in address else address
        return Exporter(node, f"http://{host}:{source.port}{source.path}")


def _uses_of(
    node: str, device: Device, places: Mapping[Place, Figures], by_place: Mapping[Place, Holder]
) -> list[DeviceUse]:
    """Return one device as each of ours has it, else as somebody else's or nobody's."""
    pods = [place for place in places if place != NOBODY]
    ours = [p for p in pods if (held := by_place.get(p)) is not None and held.node == node]
    return [
        DeviceUse(
            "/".join((node, *filter(None, device))),
            by_place[place].uid if place in ours else "",
            places[place].utilisation.get(device),
            places[place].memory_mib.get(device),
            shared=len(pods) > 1,
            foreign=place not in ours and place != NOBODY,
        )
        for place in ours or pods[:1] or [NOBODY]
    ]


def _told(source: UseSource, exporter: Exporter, end: float) -> dict[Place, Figures] | None:
    """None: it did not answer, or nonsense."""
    if time.monotonic() > end:
        return {}
    try:
        return figures(_text(exporter.url).splitlines(), source)
    except (httpx.HTTPError, ValueError) as error:
        log.info("exporters.unknown", url=exporter.url, error=str(error)[:200])
        return None


def _text(url: str) -> str:
    """The answer as it is: no redirect, no compression (a small one may unpack to anything)."""
    headers = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"}
    end = time.monotonic() + _WITHIN_S
    body = bytearray()
    with (
        httpx.Client(
            verify=trust.public(), timeout=_TIMEOUT, trust_env=False, follow_redirects=False
        ) as client,
        client.stream("GET", url, headers=headers) as answer,
    ):
        if answer.status_code != httpx.codes.OK or "content-encoding" in answer.headers:
            raise ValueError(f"The exporter answered {answer.status_code}.")
        for part in answer.iter_raw():
            body += part
            if len(body) > MAX_TEXT or time.monotonic() > end:
                raise ValueError("The exporter's answer is too large or too slow.")
    return body.decode("utf-8", "replace")
