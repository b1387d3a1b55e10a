"""Where a uid's objects are: remembered, asked of our own rows, and only then looked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.client import KubeClient
from runtime.drivers.kubernetes.keys import owner_key
from runtime.drivers.kubernetes.options import KubernetesOptions

Lookup = Callable[[str], Mapping[str, Any] | None]
Place = tuple[str, str]  # namespace, name
_KEPT = 50_000


def nowhere(_uid: str) -> None:
    """The lookup that knows nothing."""


class Locator:
    """``lookup`` answers from rows: ``{"namespace", "name"}``; a name may be missing."""

    def __init__(self, client: KubeClient, options: KubernetesOptions, lookup: Lookup) -> None:
        self._client = client
        self._prefix = options.namespace_prefix
        self._lookup = lookup
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Place] = OrderedDict()
        self._looked_for: set[str] = set()

    def remember(self, uid: str, namespace: str, name: str) -> None:
        with self._lock:
            self._known[uid] = (namespace, name)
            self._known.move_to_end(uid)
            while len(self._known) > _KEPT:
                self._looked_for.discard(self._known.popitem(last=False)[0])

    def forget(self, uid: str) -> None:
        with self._lock:
            self._known.pop(uid, None)
            self._looked_for.discard(uid)

    def was_looked_for(self, uid: str) -> bool:
        """Whether only its objects told where it is: once they are gone, nobody finds the rest."""
        with self._lock:
            return uid in self._looked_for

    def row(self, uid: str) -> Mapping[str, Any]:
        """Return what our own rows say of any uid, {} when nothing."""
        return self._lookup(uid) or {}

    def workload(self, uid: str) -> Place | None:
        """Return where the StatefulSet or Job of ``uid`` is or would be; or was, by its pod."""
        with self._lock:
            if uid in self._known:
                return self._known[uid]
        row = self.row(uid)
        if row.get("namespace") and row.get("name"):
            place = (str(row["namespace"]), str(row["name"]))
            only_seen = bool(row.get("observed"))
        else:
            selector = names.selector(self._prefix, {names.UID: names.label_value(uid)})
            namespace = str(row.get("namespace") or "")
            found = self._client.list("apps/v1", "statefulsets", namespace, selector)
            found = found or self._client.list("batch/v1", "jobs", namespace, selector)
            if found:
                place = (found[0]["metadata"]["namespace"], found[0]["metadata"]["name"])
            elif pods := self._client.list("v1", "pods", namespace, selector):
                place = owner_key(pods[0])
            else:
                return None
            only_seen = True
        if only_seen:
            with self._lock:
                self._looked_for.add(uid)
        self.remember(uid, *place)
        return place
