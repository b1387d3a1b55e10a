"""Kueue's objects of one cluster, kept as Berth's rows say.

``ensure`` looks first and writes only what differs. Objects that somebody else made are never
touched, whatever they are called.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import structlog

from runtime.capabilities.queues import QueueTree
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.answers import raise_for
from runtime.drivers.kubernetes.builders import queues as build
from runtime.drivers.kubernetes.builders import tenant
from runtime.drivers.kubernetes.client import KubeClient, Object, path_of, plural_of
from runtime.drivers.kubernetes.metrics import quantity
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Denied, InvalidSpec, NotYet
from runtime.reasons import Reason

log = structlog.get_logger(__name__)

# In the order in which they need each other.
KINDS = (
    *("Topology", "ResourceFlavor", "WorkloadPriorityClass"),
    *("Cohort", "ClusterQueue", "LocalQueue"),
)
# The same, and what shrinks before what grows.
_ORDER: tuple[tuple[str, bool | None], ...] = (
    ("Topology", None),
    ("ResourceFlavor", None),
    ("WorkloadPriorityClass", None),
    *((kind, grows) for grows in (False, True) for kind in ("Cohort", "ClusterQueue")),
    ("LocalQueue", None),
)
_OK, _CLOSED, _NOT_FOUND = 200, 403, 404
HELD = "kueue"  # value of the label ``tenant.QUEUE``
_PARALLEL = 8
_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"
_MOST = 10_000  # who stands behind so many is told no place
_PATIENCE_S = 2.0


class Queues:
    """The queue verbs of one cluster."""

    def __init__(self, client: KubeClient, options: KubernetesOptions) -> None:
        self._client = client
        self._options = options

    def ensure(self, tree: QueueTree) -> tuple[str, ...]:
        wanted = {build.key_of(obj): obj for obj in build.objects(tree, self._options)}
        self._require_kueue()
        # Its webhook looks at every one of these, so that is also asked where nothing differs.
        root = next(obj for obj in wanted.values() if obj["kind"] == "Cohort")
        live = self._live()
        for key in wanted.keys() & live.keys():
            self._refuse_others(key, live[key])
        self._client.apply(root, dry_run=True)
        leaving = {key for key, obj in live.items() if _is_ending(obj)}
        todo = [
            obj
            for key, obj in wanted.items()
            if key not in leaving and not (key in live and _is_same(obj, live[key]))
        ]
        self._write(todo, live)
        stale = [key for key, obj in live.items() if key not in wanted and self._is_ours(obj)]
        gone = self._delete([key for key in stale if key not in leaving], live)
        self._require_held(tree)
        return tuple(sorted([*map(build.key_of, todo), *gone]))

    def remove(self) -> None:
        self._require_kueue()
        live = {key: obj for key, obj in self._live().items() if self._is_ours(obj)}
        self._delete([key for key, obj in live.items() if not _is_ending(obj)], live)
        if live:
            raise NotYet("The cluster's queues are being removed.", retry_in=2.0)

    def waiting_in(self, namespace: str) -> tuple[str, ...]:
        """Return the owners' names as Kueue tells their order; a project has one way in.

        Where its API for that is not installed, or closed to us, they are ordered as it would order
        them. Where it does not answer, nobody is known to stand anywhere.
        """
        queue = self._options.queue or build.LOCAL
        path = f"{_VISIBILITY}/namespaces/{namespace}/localqueues/{queue}/pendingworkloads"
        answer = self._client.read_once(path, {"limit": str(_MOST)}, wait_s=_PATIENCE_S)
        if answer.status == _OK and isinstance(told := answer.json(), dict):
            return _owners(told.get("items") or [])
        if answer.status not in {_CLOSED, _NOT_FOUND}:
            return ()
        found = self._client.list(build.VERSION, "workloads", namespace)
        return _owners(sorted((one for one in found if _waits(one)), key=_turn))

    # --- inside ---------------------------------------------------------------------------------
    def _require_held(self, tree: QueueTree) -> None:
        """Kueue takes a namespace into account by its label: without it work starts past it."""
        there = self._client.list("v1", "namespaces", selector=f"{tenant.QUEUE}={HELD}")
        held = {found["metadata"]["name"] for found in there}
        if loose := sorted({part.namespace for part in tree.parts} - held - {""}):
            raise NotYet(f"Namespaces are not held by Kueue yet: {', '.join(loose[:3])}.")

    def _require_kueue(self) -> None:
        answer = self._client.read(f"/apis/{build.VERSION}")
        if answer.status == _NOT_FOUND:
            message = f"Kueue is not installed, or has no {build.VERSION}: nothing is let in."
            raise Denied(message, reason=Reason.NO_QUEUE)
        raise_for(answer)

    def _live(self) -> dict[str, Object]:
        """Return all there are in the cluster, also those of others."""
        found = {}
        for kind in KINDS:
            for obj in self._client.list(build.VERSION, plural_of(kind)):
                named = {**obj, "kind": kind}
                found[build.key_of(named)] = named
        return found

    def _is_ours(self, obj: Object) -> bool:
        labels = obj["metadata"].get("labels") or {}
        own = names.marks(self._options.namespace_prefix, self._options.installation)
        return all(labels.get(name) == value for name, value in own.items())

    def _refuse_others(self, key: str, obj: Object) -> None:
        labels = obj["metadata"].get("labels") or {}
        is_marked = labels.get(names.MANAGED) == "true"
        if not is_marked or names.is_foreign(obj, self._options.installation):
            raise InvalidSpec(f"{key} is there already and was not made by this Berth.")

    def _write(self, todo: list[Object], live: Mapping[str, Object]) -> None:
        before = {build.key_of(obj): live.get(build.key_of(obj)) for obj in todo}
        self._follow(
            [o for o in todo if o["kind"] == "WorkloadPriorityClass" and before[build.key_of(o)]]
        )
        for kind, grows in _ORDER:
            mine = [obj for obj in todo if obj["kind"] == kind]
            if grows is not None:
                mine = [o for o in mine if _grows(o, before[build.key_of(o)]) is grows]
            self._side_by_side(self._put, mine)

    def _put(self, obj: Object) -> None:
        """Apply; where that leaves what somebody added, put ours in its place."""
        made = self._client.apply(obj)
        if _is_same(obj, made):
            return
        meta = {**obj["metadata"], "resourceVersion": made["metadata"]["resourceVersion"]}
        if finalizers := made["metadata"].get("finalizers"):
            meta["finalizers"] = finalizers
        path = path_of(
            build.VERSION, plural_of(obj["kind"]), meta["name"], meta.get("namespace", "")
        )
        params = {"fieldManager": names.MANAGER}
        raise_for(self._client.request("PUT", path, params, {**obj, "metadata": meta}))

    def _follow(self, classes: list[Object]) -> None:
        """Give work that is there the new value of its priority: Kueue leaves it as it was.

        Before the class itself: whoever dies in between finds the class to be written again.
        """
        values = {obj["metadata"]["name"]: obj["value"] for obj in classes}
        if not values:
            return
        for found in self._client.list(build.VERSION, "workloads"):
            spec = found.get("spec") or {}
            name = str((spec.get("priorityClassRef") or {}).get("name"))
            if name in values and spec.get("priority") != values[name]:
                set_priority(self._client, found, name, values[name])

    def _delete(self, keys: list[str], live: Mapping[str, Object]) -> list[str]:
        """What needs the others goes first; Kueue keeps what is in use until it is not."""
        for kind in reversed(KINDS):
            mine = [live[key] for key in keys if live[key]["kind"] == kind]
            self._side_by_side(self._drop, mine)
        return keys

    def _drop(self, obj: Object) -> None:
        meta = obj["metadata"]
        plural = plural_of(obj["kind"])
        self._client.delete(
            build.VERSION, plural, meta["name"], meta.get("namespace", ""), uid=meta["uid"]
        )

    def _side_by_side(self, act: Callable[[Object], None], objects: list[Object]) -> None:
        """The first error is raised after all have ended."""
        with ThreadPoolExecutor(max_workers=_PARALLEL) as pool:
            futures = [pool.submit(act, obj) for obj in objects]
        for future in futures:
            future.result()


def stand(
    client: KubeClient,
    owner: Object,
    priority: str,
    *,
    waits: bool = False,
    pods: Iterable[Object] = (),
) -> bool:
    """Let what stands in a queue for ``owner`` stand there so; False: nothing does yet.

    ``pods``: those of its pods that stand there each for itself.

    Kueue follows the label of a Job by itself; of a StatefulSet it keeps what was said first.
    """
    whose = owner["metadata"]
    uids = {whose["uid"], *(pod["metadata"]["uid"] for pod in pods)}
    classes = plural_of("WorkloadPriorityClass")
    said = client.get(build.VERSION, classes, priority) if priority else None
    mine = [
        one
        for one in client.list(build.VERSION, "workloads", whose["namespace"])
        if any(o.get("uid") in uids for o in one["metadata"].get("ownerReferences") or [])
    ]
    for found in mine:
        spec, about = found.get("spec") or {}, found["metadata"]
        change: Object = {}
        known = ((spec.get("priorityClassRef") or {}).get("name"), spec.get("priority"))
        if said is not None and known != (priority, said["value"]):
            change = _of_class(priority, said["value"])
        held = names.WAITS in (about.get("annotations") or {})
        marks: Object = {}
        if waits and not held and _waits(found):
            change["active"], marks = False, {names.WAITS: "true"}
        elif held and not waits:
            change["active"], marks = True, {names.WAITS: None}
        if change:
            meta: Object = {"annotations": marks}
            if change.get("active") is False:  # what was let in meanwhile goes on: NotYet
                meta["resourceVersion"] = about["resourceVersion"]
            whole = {"metadata": meta, "spec": change}
            client.patch(build.VERSION, "workloads", about["name"], about["namespace"], whole)
    return bool(mine)


def hold(client: KubeClient, owner: Object) -> None:
    """Let Kueue not let it go on, whatever room there is: it suspends what it has let in."""
    whose = owner["metadata"]
    for found in client.list(build.VERSION, "workloads", whose["namespace"]):
        about = found["metadata"]
        mine = any(o.get("uid") == whose["uid"] for o in about.get("ownerReferences") or [])
        if mine and (found.get("spec") or {}).get("active", True):
            off = {"spec": {"active": False}}
            client.patch(build.VERSION, "workloads", about["name"], about["namespace"], off)


def set_priority(client: KubeClient, workload: Object, name: str, value: int) -> None:
    meta = workload["metadata"]
    change = {"spec": _of_class(name, value)}
    client.patch(build.VERSION, "workloads", meta["name"], meta["namespace"], change)


def _of_class(name: str, value: int) -> Object:
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name}
    return {"priority": value, "priorityClassRef": ref}


def _owners(workloads: Iterable[Object]) -> tuple[str, ...]:
    found = (one["metadata"].get("ownerReferences") or [{}] for one in workloads)
    return tuple(str(owners[0].get("name", "")) for owners in found)


def _waits(workload: Object) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or []
    true = {one["type"] for one in conditions if one.get("status") == "True"}
    active = (workload.get("spec") or {}).get("active", True)
    return bool(active) and not true & {"QuotaReserved", "Finished"}


def _turn(workload: Object) -> tuple[int, str, str]:
    meta = workload["metadata"]
    priority = int((workload.get("spec") or {}).get("priority") or 0)
    return -priority, str(meta.get("creationTimestamp", "")), str(meta["name"])


def _is_same(wanted: Object, live: Object) -> bool:
    return build.digest_of(wanted) == build.digest_of({**live, "kind": wanted["kind"]})


def _is_ending(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def _grows(obj: Object, before: Object | None) -> bool:
    """Whether any of its quotas gets larger by writing it."""
    old = {} if before is None else _quotas(before)
    return any(amount > old.get(name, 0.0) for name, amount in _quotas(obj).items())


def _quotas(obj: Object) -> dict[tuple[str, str], float]:
    return {
        (flavor["name"], has["name"]): quantity(str(has["nominalQuota"]))
        for group in obj["spec"].get("resourceGroups") or []
        for flavor in group["flavors"]
        for has in flavor["resources"]
    }
