"""What the watch knows of a cluster, kept small, and which uids a change is about.

Objects are cut down to what ``observe`` reads. A change that is older than what is known, or
comes twice, changes nothing.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from runtime.capabilities.clusters import NodeChanges, NodeFacts
from runtime.drivers.kubernetes import (
    ending,
    names,
    observe,
    observe_job,
    observe_served,
    shapes,
    waiting,
)
from runtime.drivers.kubernetes.names import Key, key_of, owner_key, set_name, uid_of, version_of
from runtime.drivers.kubernetes.namespaces import NamespaceCache
from runtime.drivers.kubernetes.nodes import SeenNodes, could_fit
from runtime.drivers.kubernetes.prober import Prober, question_of
from runtime.drivers.kubernetes.pruning import (
    small_event,
    small_job,
    small_operated,
    small_pod,
    small_served,
    small_set,
)
from runtime.drivers.kubernetes.queued import Queued, in_queue
from runtime.protocol import Observation, Seen

Object = dict[str, Any]

SETS, PODS, EVENTS, NODES, QUEUED = "StatefulSet", "Pod", "Event", "Node", "Workload"
JOBS = "Job"
_OWNERS = (SETS, *names.UNNAMED)
_REPLICA_SET = "-predictor-"  # how KServe's names go on behind that of what serves
OTHERS = "OtherPod"  # a pod that is not this portal's: only the devices that it holds count
_EVENTS_KEPT = 8
_GONE_KEPT = 20_000
_EARLY_KEPT = 20_000
_LONG_AGO = "1970-01-01T00:00:00Z"


class World:
    """Thread-safe. ``changed`` collects uids until ``take`` judges them."""

    def __init__(self, queues: str = "") -> None:
        """``queues``: what begins the names of queues and flavors of Berth."""
        self._queues = queues
        self._lock = threading.RLock()
        self._sets: dict[Key, Object] = {}
        self._by_uid: dict[str, Key] = {}
        self._pods: dict[Key, Object] = {}
        self._of_job: dict[Key, set[Key]] = {}  # a Job's pods: more than one, each with its name
        self._events: dict[Key, OrderedDict[str, Object]] = {}
        self._queued: dict[Key, tuple[Key, Queued]] = {}  # by owner: which of Kueue's says what
        self._workloads: dict[Key, tuple[list[Key], int]] = {}  # Kueue's: its owners, its version
        # by owner and replica: the launch, and why
        self._interrupted: dict[Key, dict[int, tuple[int, tuple[str, str]]]] = {}
        # pod uid → when it answered us; None: its node said so since, and its word counts now
        self._answered: dict[str, float | None] = {}
        self._prober: Prober | None = None
        self._places = NamespaceCache()
        self._nodes = SeenNodes()
        self._gone: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        self._changed: dict[str, str] = {}  # uid → kind

    # --- from a prober --------------------------------------------------------------------------
    def ask_by(self, prober: Prober) -> None:
        """From now on pods that start are asked directly."""
        self._prober = prober

    def answered(self, pod_uid: str) -> None:
        with self._lock:
            for pod in self._pods.values():
                if pod["metadata"].get("uid") == pod_uid:
                    self._answered.setdefault(pod_uid, time.time())
                    self._touch(owner_key(pod))
                    return

    # --- from the watch -------------------------------------------------------------------------
    def put(self, kind: str, obj: Mapping[str, Any]) -> None:
        with self._lock:
            self._put(kind, dict(obj))

    def drop(self, kind: str, obj: Mapping[str, Any]) -> None:
        with self._lock:
            self._gone[_grave(kind, obj)] = version_of(obj)
            while len(self._gone) > _GONE_KEPT:
                self._gone.popitem(last=False)
            self._drop(kind, dict(obj))

    def keep(self, kind: str, keys: Collection[Key]) -> None:
        """A full list came to its end: what it did not name is gone."""
        with self._lock:
            for known in self._all(kind):
                if key_of(known) not in keys:
                    self._drop(kind, known)
            if kind == NODES:
                self._nodes.listed()
            elif kind == OTHERS:
                self._nodes.others_listed()

    # --- to the driver --------------------------------------------------------------------------
    def take(self) -> list[Observation]:
        """Judge what changed since the last call."""
        with self._lock:
            changed, self._changed = self._changed, {}
            return [self._judge(uid, kind) for uid, kind in changed.items()]

    def everything(self) -> list[Observation]:
        """Judge all there is."""
        with self._lock:
            self._changed = {}
            found = [self._judge(uid, "") for uid in self._by_uid]
            return found + self._places.everything()

    def workloads(self) -> list[Observation]:
        with self._lock:
            return [self._judge(uid, "") for uid in self._by_uid]

    def lone_pods(self) -> list[Observation]:
        """Return what has a pod and nothing else."""
        with self._lock:
            return list(ending.lone(self._pods.values(), self._sets, self._by_uid))

    def knows(self, uid: str) -> bool:
        with self._lock:
            return uid in self._by_uid

    def pods_of(self, found: Object) -> list[Object | None]:
        """Return the pod of each replica, as far as the watch is."""
        with self._lock:
            return self._its_pods(found)

    def sights(self, found: Object, pods: Sequence[Object | None]) -> list[observe.Sight]:
        """Put what is only known from watching beside objects that were just read."""
        with self._lock:
            return self._sights(found, pods)

    def node_facts(self) -> list[NodeFacts]:
        with self._lock:
            return self._nodes.facts()

    def take_nodes(self) -> NodeChanges | None:
        with self._lock:
            return self._nodes.take()

    # --- inside: changes --------------------------------------------------------------------------
    def _put(self, kind: str, obj: Object) -> None:
        known = self._known(kind, obj)
        age = version_of(obj)
        if age and age <= max(version_of(known), self._gone.get(_grave(kind, obj), 0)):
            return
        if kind in _OWNERS:
            self._put_owner(kind, obj)
        elif kind == PODS:
            self._put_pod(obj)
        elif kind == EVENTS:
            self._put_event(obj)
        elif kind == NODES:
            if self._nodes.put(obj):
                self._touch_node(obj["metadata"]["name"])
        elif kind == OTHERS:
            self._nodes.put_other(key_of(obj), obj)
        elif kind == QUEUED:
            self._put_queued(obj)
        else:
            self._touch_uid(self._places.put(kind, obj), "place")

    def _put_owner(self, kind: str, obj: Object) -> None:
        key = key_of(obj)
        before = self._sets.get(key)
        self._sets[key] = _small_owner(kind, obj)
        uid = uid_of(obj)
        if uid:
            self._by_uid[uid] = key
        was = uid_of(before or {})
        if was != uid and self._by_uid.get(was) == key:  # somebody gave it to another uid
            del self._by_uid[was]
            self._touch_uid(was, "")
        if before is not None and observe.launch_of(before) != observe.launch_of(obj):
            self._interrupted.pop(key, None)
        self._touch(key)

    def _put_pod(self, obj: Object) -> None:
        small = small_pod(obj, self._pods.get(key_of(obj)))
        self._pods[key_of(obj)] = small
        key = owner_key(obj)
        if {names.JOB, names.WORKLOAD} & set(obj["metadata"].get("labels") or {}):
            self._of_job.setdefault(key, set()).add(key_of(obj))
        self._note_interruption(key, small)
        if observe.is_ready(small):
            self._answered[small["metadata"].get("uid", "")] = None
            if not observe.is_going(small):
                self._interrupted.get(key, {}).pop(observe_job.index_of(small), None)
        if self._prober is not None:
            question = question_of(small)
            if question is None or observe.is_ready(small) or observe.is_going(small):
                self._prober.forget(small["metadata"].get("uid", ""))
            elif question.pod_uid not in self._answered:
                self._prober.ask(question)
        self._touch(key)

    def _note_interruption(self, key: Key, pod: Object) -> None:
        """A pod that is wanted goes: its successor is told why."""
        owner = self._sets.get(key)
        if owner is None or not observe.replicas_of(owner) or not observe.is_going(pod):
            return
        if observe_served.is_served(owner):
            return  # its pods have no successors: another one is another
        if observe.is_job(owner) and observe_job.is_over(pod) and not observe.is_disrupted(pod):
            return  # it failed by itself
        launch = observe.launch_of(owner)
        if observe.launch_of(pod) == launch and observe.ending_of(pod) is None:
            known = self._interrupted.setdefault(key, {})
            known[observe_job.index_of(pod)] = (launch, waiting.interruption(pod))

    def _put_event(self, obj: Object) -> None:
        about = obj.get("involvedObject") or {}
        key = (str(about.get("namespace", "")), str(about.get("name", "")))
        if about.get("kind") == "Pod":
            known_pod = self._pods.get(key)
            owner = owner_key(known_pod) if known_pod else (key[0], set_name(key[1]))
        elif about.get("kind") in _OWNERS:
            owner = key
        elif about.get("kind") == "ReplicaSet" and _REPLICA_SET in key[1]:
            owner = (key[0], key[1].rpartition(_REPLICA_SET)[0])
        else:
            return
        early = key[1].startswith("ws-") and len(self._events) < _EARLY_KEPT
        if owner not in self._sets and not early:
            return  # not ours; its StatefulSet may come a moment later when it is
        rows = self._events.setdefault(owner, OrderedDict())
        known, small = rows.get(obj["metadata"]["name"]), small_event(obj)
        rows[obj["metadata"]["name"]] = small
        rows.move_to_end(obj["metadata"]["name"])
        while len(rows) > _EVENTS_KEPT:
            rows.popitem(last=False)
        if known is None or known["message"] != small["message"]:
            self._touch(owner)  # once more of the same is no news

    def _put_queued(self, obj: Object) -> None:
        """A pod counts only where it stands for itself: of a whole that is said to the whole."""
        own, (known, _version) = key_of(obj), self._workloads.get(key_of(obj), ([], 0))
        owners = obj["metadata"].get("ownerReferences") or []
        its = [o for o in owners if o.get("kind") in _OWNERS] or [
            o for o in owners if o.get("kind") == PODS and o["name"].startswith("ws-")
        ]
        keys = [(own[0], str(owner["name"])) for owner in its]
        if keys or known:
            self._workloads[own] = (keys, version_of(obj))
        found = own, in_queue(obj, self._queues)
        for key in keys:
            if self._queued.get(key) != found:
                self._queued[key] = found
                self._touch_owner(key)
        for key in known:
            if key not in keys:
                self._forget_queued(own, key)

    def _drop_pod(self, key: Key, obj: Object) -> None:
        pod = self._pods.pop(key, None)
        self._forget_of_job(owner_key(obj), key)
        if pod is not None:
            self._answered.pop(pod["metadata"].get("uid", ""), None)
            if self._prober is not None:
                self._prober.forget(pod["metadata"].get("uid", ""))
        if pod is not None and not observe.is_going(pod):
            gone = small_pod(obj)
            gone["metadata"].setdefault("deletionTimestamp", _LONG_AGO)
            self._note_interruption(owner_key(obj), gone)
        self._touch(owner_key(obj))

    def _drop_queued(self, key: Key) -> None:
        for owner in self._workloads.pop(key, ([], 0))[0]:
            self._forget_queued(key, owner)

    def _forget_queued(self, key: Key, owner: Key) -> None:
        if owner in self._queued and self._queued[owner][0] == key:
            del self._queued[owner]
            self._touch_owner(owner)

    def _drop(self, kind: str, obj: Object) -> None:
        key = key_of(obj)
        if kind in _OWNERS:
            if self._sets.get(key, {}).get("kind", SETS) != kind:
                return  # one of another kind has its name by now
            self._sets.pop(key, None)
            self._events.pop(key, None)
            self._interrupted.pop(key, None)
            self._queued.pop(key, None)
            self._touch_uid(uid_of(obj), (obj["metadata"].get("labels") or {}).get(names.KIND, ""))
            if self._by_uid.get(uid_of(obj)) == key:
                del self._by_uid[uid_of(obj)]
        elif kind == PODS:
            self._drop_pod(key, obj)
        elif kind == NODES:
            self._nodes.drop(key[1])
            self._touch_node(key[1])
        elif kind == OTHERS:
            self._nodes.drop_other(key)
        elif kind == QUEUED:
            self._drop_queued(key)
        elif kind != EVENTS:
            self._touch_uid(self._places.drop(kind, obj), "place")

    def _forget_of_job(self, owner: Key, pod: Key) -> None:
        rows = self._of_job.get(owner, set())
        rows.discard(pod)
        if not rows:
            self._of_job.pop(owner, None)

    # --- inside: who is touched -------------------------------------------------------------------
    def _touch(self, key: Key) -> None:
        found = self._sets.get(key)
        if found is not None:
            self._touch_uid(uid_of(found), "")

    def _touch_owner(self, key: Key) -> None:
        """Of a pod that stands in line for itself: what it belongs to."""
        self._touch(owner_key(self._pods[key]) if key in self._pods else key)

    def _touch_uid(self, uid: str, kind: str) -> None:
        if uid:
            self._changed[uid] = kind or self._changed.get(uid, "")

    def _touch_node(self, name: str) -> None:
        for pod in self._pods.values():
            if pod["spec"].get("nodeName") == name:
                self._touch(owner_key(pod))

    # --- inside: judging --------------------------------------------------------------------------
    def _judge(self, uid: str, kind: str) -> Observation:
        key = self._by_uid.get(uid)
        if key is not None:
            found = self._sets[key]
            sights = self._sights(found, self._its_pods(found))
            return shapes.of_owner(found).observe(sights)
        if kind == "place" and (place := self._places.judge(uid)) is not None:
            return place
        return Observation(uid=uid, seen=Seen.MISSING, kind=kind)

    def _its_pods(self, found: Object) -> list[Object | None]:
        key = key_of(found)
        known = (
            self._of_job.get(key, ())
            if observe.has_unnamed_pods(found)
            else [(key[0], names.pod(key[1]))]
        )
        pods = [self._pods[k] for k in known if k in self._pods]
        return shapes.of_owner(found).pods(found, pods)

    def _sights(self, found: Object, pods: Sequence[Object | None]) -> list[observe.Sight]:
        return [self._sight(found, number, pod) for number, pod in enumerate(pods)]

    def _sight(self, found: Object, number: int, pod: Object | None) -> observe.Sight:
        key = key_of(found)
        launch, why = self._interrupted.get(key, {}).get(number, (0, ("", "")))
        node = (pod or {}).get("spec", {}).get("nodeName") or ""
        return observe.Sight(
            owner=found,
            pod=pod,
            events=tuple(self._of_pod(self._events.get(key, {}).values(), pod)),
            queued=self._in_line(pod, key),
            node_ready=self._nodes.is_ready(node),
            silence=self._nodes.silence(node),
            could_fit=None if node else self._could_fit(found),  # asked of what waits for a node
            answered_at=self._answered.get((pod or {}).get("metadata", {}).get("uid", "")),
            interrupted=why if launch == observe.launch_of(found) else ("", ""),
        )

    def _in_line(self, pod: Object | None, owner: Key) -> Queued:
        """What is said of the pod where each stands in its queue for itself, or of the whole."""
        known = self._queued.get(key_of(pod)) if pod is not None else None
        known = known or self._queued.get(owner)
        return Queued() if known is None else known[1]

    def _of_pod(self, events: Iterable[Object], pod: Object | None) -> Iterable[Object]:
        """Only what is about this very pod: an older one of the same name had its own."""
        uid = pod["metadata"].get("uid") if pod else None
        for event in events:
            about = event["involvedObject"]
            if about.get("kind") != "Pod" or uid is None or about.get("uid") in {None, uid}:
                yield event

    def _could_fit(self, found: Object) -> bool | None:
        """Whether a node that it may choose would be large enough when empty. None: not known."""
        if not self._nodes:
            return None
        spec = (found["spec"].get("template") or {}).get("spec") or {}
        return could_fit(spec, self._nodes.known())

    def _known(self, kind: str, obj: Object) -> Object | None:
        if kind in _OWNERS:
            return self._sets.get(key_of(obj))
        if kind == PODS:
            return self._pods.get(key_of(obj))
        if kind == QUEUED and key_of(obj) in self._workloads:
            return {"metadata": {"resourceVersion": str(self._workloads[key_of(obj)][1])}}
        if kind in {EVENTS, NODES, OTHERS, QUEUED}:
            return None
        return self._places.known(kind, obj)

    def _all(self, kind: str) -> list[Object]:
        if kind in _OWNERS:
            return [o for o in self._sets.values() if o.get("kind", SETS) == kind]
        if kind == PODS:
            return list(self._pods.values())
        if kind == NODES:
            return [{"metadata": {"name": name}} for name in self._nodes.names()]
        if kind in {OTHERS, QUEUED}:
            keys = self._nodes.others() if kind == OTHERS else list(self._workloads)
            return [{"metadata": {"namespace": n, "name": m}} for n, m in keys]
        if kind == EVENTS:
            return []
        return self._places.all(kind)


# --- pure -----------------------------------------------------------------------------------------
def _small_owner(kind: str, obj: Object) -> Object:
    if kind in {SETS, JOBS}:
        return small_job(obj) if kind == JOBS else small_set(obj)
    if kind == names.SERVED:
        return small_served(obj)
    return small_operated(kind, obj)


def _grave(kind: str, obj: Mapping[str, Any]) -> tuple[str, str, str]:
    return (kind, *key_of(obj))
