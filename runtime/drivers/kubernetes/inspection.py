"""Where a workload's objects are, and what people may read of them and of their latest events.

Secrets are never read; how a program is called and ended, and what its environment holds, is left
out for everybody but the owner. An API server lists events by name and knows no order by time: who
wants the newest has to read them all.
"""

import contextlib
import copy
import heapq
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.capabilities.workloads import Inspection
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.names import ENDED, owner_key
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.waiting import event_time
from runtime.protocol import Denied, NotYet

Lookup = Callable[[str], Mapping[str, Any] | None]
Place = tuple[str, str]  # namespace, name
_KEPT = 50_000


def nowhere(_uid: str) -> None:
    """The lookup that knows nothing."""


class Locator:
    """``lookup`` answers from rows: ``{"namespace", "name"}``; a name may be missing.

    ``more``: apiVersion and plural of what besides StatefulSets and Jobs may own pods.
    """

    def __init__(
        self,
        client: KubeClient,
        options: KubernetesOptions,
        lookup: Lookup,
        more: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._client = client
        self._prefix = options.namespace_prefix
        self._more = more
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
            for version, plural in self._more:
                with contextlib.suppress(Denied, NotYet):  # earlier rights, or gone since
                    found = found or self._client.list(version, plural, namespace, selector)
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


@dataclass(frozen=True)
class Recent:
    """The newest of what was read, newest first."""

    rows: tuple[Object, ...]
    more: bool = False  # there are others besides these
    unread: bool = False  # not all could be read in time: newer ones may be among the rest


def recent_events(
    client: KubeClient, namespace: str, names: Iterable[str], *, most: int, seconds: float
) -> Recent:
    """Read the events of objects so called, each for its share of the time and one page at least.

    Of what is read no more is held than a page and the newest so far.
    """
    kept: list[Object] = []
    read, unread = 0, False
    left, end = list(names), time.monotonic() + seconds
    while left:
        begun = time.monotonic()
        until = begun + (end - begun) / len(left)
        about = f"involvedObject.name={left.pop(0)}"
        for rows, said in client.pages("v1", "events", namespace, fields=about):
            read += len(rows)
            kept = heapq.nlargest(most, [*kept, *rows], key=event_time)
            if said.get("continue") and time.monotonic() >= until:
                unread = True
                break
    return Recent(tuple(kept), more=unread or read > len(kept), unread=unread)


_HIDDEN = "kubectl.kubernetes.io/last-applied-configuration"


def inspect(
    client: KubeClient, where: Mapping[str, str], *, for_owner: bool, most: int, seconds: float
) -> Inspection:
    namespace, name, pod = where["namespace"], where["name"], where["pod"]
    found = [
        client.get("apps/v1", "statefulsets", name, namespace),
        client.get("v1", "pods", pod, namespace),
    ]
    seen = recent_events(client, namespace, sorted({name, pod}), most=most, seconds=seconds)
    return Inspection(
        objects={
            f"{one.get('kind', '')} {one['metadata']['name']}": clean(one, for_owner=for_owner)
            for one in found
            if one
        },
        events=tuple(_event(one) for one in seen.rows),
        more=seen.more,
        unread=seen.unread,
    )


def clean(obj: Mapping[str, Any], *, for_owner: bool) -> dict[str, Any]:
    """Return it as a person wants to read it: no bookkeeping, no values of others."""
    shown: dict[str, Any] = copy.deepcopy(dict(obj))
    meta = shown.get("metadata", {})
    meta.pop("managedFields", None)
    (meta.get("annotations") or {}).pop(_HIDDEN, None)
    if not for_owner:
        shown.pop("status", None)  # how a program ended is its owner's
        (meta.get("annotations") or {}).pop(ENDED, None)
        spec = shown.get("spec") or {}
        if "template" in spec:
            spec = (spec["template"] or {}).get("spec") or {}
        for containers in [spec.get(kind) or [] for kind in ("containers", "initContainers")]:
            for container in containers:
                for name in ("command", "args"):
                    if name in container:
                        container[name] = ["…"]
                for one in container.get("env") or []:
                    if "value" in one:
                        one["value"] = "…"
    return shown


def _event(one: Mapping[str, Any]) -> dict[str, Any]:
    series = one.get("series") or {}
    source = one.get("reportingComponent") or (one.get("source") or {}).get("component") or ""
    return {
        "at": event_time(one),
        "kind": str(one.get("type", "")),
        "reason": str(one.get("reason", ""))[:80],
        "message": str(one.get("message", ""))[:600],
        "count": int(series.get("count") or one.get("count") or 1),
        "object": str((one.get("involvedObject") or {}).get("name", ""))[:120],
        "source": str(source)[:80],
    }
