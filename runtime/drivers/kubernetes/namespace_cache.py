"""What the watch knows of projects' namespaces and the managed objects in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.tenant import place_observation
from runtime.protocol import Observation

Object = dict[str, Any]
_NAMESPACE = "Namespace"


class NamespaceCache:
    """Not thread-safe: its ``World`` has the lock. Each change returns the uid it is about."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Object]] = {}  # namespace → Kind/name → object
        self._by_uid: dict[str, str] = {}

    def put(self, kind: str, obj: Object) -> str:
        namespace = _namespace_of(obj)
        meta = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
        made = {**obj, "metadata": meta, "kind": kind}
        self._rows.setdefault(namespace, {})[_name(kind, obj)] = made
        uid = self._uid(namespace)
        if uid:
            self._by_uid[uid] = namespace
        return uid

    def drop(self, kind: str, obj: Mapping[str, Any]) -> str:
        namespace = _namespace_of(obj)
        uid, rows = self._uid(namespace), self._rows.get(namespace, {})
        rows.pop(_name(kind, obj), None)
        if not rows:
            self._rows.pop(namespace, None)
        if kind == _NAMESPACE:
            self._by_uid.pop(uid, None)
        return uid

    def known(self, kind: str, obj: Mapping[str, Any]) -> Object | None:
        return self._rows.get(_namespace_of(obj), {}).get(_name(kind, obj))

    def all(self, kind: str) -> list[Object]:
        return [o for rows in self._rows.values() for o in rows.values() if o["kind"] == kind]

    def judge(self, uid: str) -> Observation | None:
        """None: there is no namespace of this uid."""
        namespace = self._by_uid.get(uid)
        if namespace is None:
            return None
        rows = self._rows[namespace]
        own = rows[f"{_NAMESPACE}/{namespace}"]
        return place_observation(uid, own, [o for o in rows.values() if o is not own])

    def everything(self) -> list[Observation]:
        return [found for uid in self._by_uid if (found := self.judge(uid)) is not None]

    def _uid(self, namespace: str) -> str:
        own = self._rows.get(namespace, {}).get(f"{_NAMESPACE}/{namespace}") or {}
        return str(((own.get("metadata") or {}).get("labels") or {}).get(names.UID, ""))


def _namespace_of(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"].get("namespace") or obj["metadata"]["name"])


def _name(kind: str, obj: Mapping[str, Any]) -> str:
    return f"{kind}/{obj['metadata']['name']}"
