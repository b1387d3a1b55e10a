"""What pods use, from metrics.k8s.io where the cluster has it. Unknown is unknown, never 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.api_errors import Answer
from runtime.drivers.kubernetes.client import KubeClient, path_of
from runtime.drivers.kubernetes.locate import Locator
from runtime.drivers.kubernetes.options import KubernetesOptions

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
