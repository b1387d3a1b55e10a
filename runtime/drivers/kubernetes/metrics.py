"""What pods use, from metrics.k8s.io where the cluster has it. Unknown is unknown, never 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.client import KubeClient, path_of
from runtime.drivers.kubernetes.locate import Locator
from runtime.drivers.kubernetes.options import KubernetesOptions

_API = "metrics.k8s.io/v1beta1"
_FEW = 4
_OK, _NOT_FOUND = 200, 404
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
            samples = [(uid, known.get(names.label_value(uid))) for uid in wanted]
        return {uid: found for uid, row in samples if row and (found := _sum(row))}

    def _one(self, uid: str) -> Mapping[str, Any] | None:
        place = self._locator.workload(uid)
        if place is None:
            return None
        answer = self._client.read(path_of(_API, "pods", names.pod(place[1]), place[0]))
        if answer.status == _OK:
            found: Mapping[str, Any] | None = answer.json()
            return found
        return self._of_job(uid, place[0]) if answer.status == _NOT_FOUND else None

    def _of_job(self, uid: str, namespace: str) -> Mapping[str, Any] | None:
        """A Job's pod has a name that nobody knows before."""
        asked = {"labelSelector": f"{names.UID}={names.label_value(uid)},{names.JOB}"}
        answer = self._client.read(path_of(_API, "pods", "", namespace), asked)
        rows = (answer.json() or {}).get("items") or [] if answer.status == _OK else []
        return rows[0] if rows else None

    def _all(self) -> dict[str, Mapping[str, Any]]:
        answer = self._client.read(path_of(_API, "pods"), {"labelSelector": self._selector})
        items = (answer.json() or {}).get("items") or [] if answer.status == _OK else []
        return {(i["metadata"].get("labels") or {}).get(names.UID, ""): i for i in items}


def _sum(row: Mapping[str, Any]) -> dict[str, float]:
    used = [c.get("usage") or {} for c in row.get("containers") or []]
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
