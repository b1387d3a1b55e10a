"""Making, ending and removing one workload. Every step may be run again after a crash.

A launch in a project that has its place costs two writes (Secret, StatefulSet or Job), three
with secret files, two more for a group whose pods meet; the first with a new volume two more. A
Job's next launch removes the Job of the one before.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from runtime.drivers import mounts
from runtime.drivers.kubernetes import (
    ending,
    names,
    notices,
    observe,
    observe_served,
    queues,
    shapes,
)
from runtime.drivers.kubernetes.builders import workload as build
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.cluster_cache import World
from runtime.drivers.kubernetes.ending import ENDING, not_gone
from runtime.drivers.kubernetes.inspection import Locator, recent_events
from runtime.drivers.kubernetes.logs import Logs
from runtime.drivers.kubernetes.names import uid_of
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.shapes import inferenceservice, job, statefulset
from runtime.drivers.kubernetes.shapes.base import Hands, firsts
from runtime.drivers.kubernetes.volumes import Volumes
from runtime.drivers.mounts import checked, filled
from runtime.protocol import Denied, DriverError, InvalidSpec, NotYet
from runtime.spec import WorkloadSpec

log = structlog.get_logger(__name__)

_MADE_S, _MADE_KEPT = 2.0, 1000
_EVENTS, _EVENTS_S, _EVENTS_PODS = (
    50,
    1.0,
    3,
)  # the latest say why it waits; a flood of them holds nobody up


class Workloads:
    """The verbs of one cluster that change workloads."""

    def __init__(
        self,
        client: KubeClient,
        options: KubernetesOptions,
        locator: Locator,
        volumes: Volumes,
        logs: Logs,
        watched: Callable[[], World | None] = lambda: None,
    ) -> None:
        self._watched = watched
        self._made: dict[str, tuple[float, Object]] = {}
        self._client = client
        self._options = options
        self._locator = locator
        self._volumes = volumes
        self._hands = Hands(client, logs, options.installation)

    # --- make ---------------------------------------------------------------------------------
    def ensure(self, spec: WorkloadSpec) -> Mapping[str, object]:
        if not spec.image or not spec.namespace:
            raise InvalidSpec("It names no image, so it cannot run on a cluster.")
        mounts.check(spec.mounts)
        name = names.workload(spec.name, spec.uid)
        self._locator.remember(spec.uid, spec.namespace, name)
        pod = "" if spec.once or spec.serve is not None else names.pod(name)
        reference = {"namespace": spec.namespace, "name": name, "pod": pod}
        had_files, known = False, None
        # A first launch that the watch has never seen needs no look: one worker has the row.
        # Should it exist all the same, made a moment ago by a worker that died, then what is
        # applied is what is there.
        seen = self._watched()
        if not (spec.launch == 1 and seen is not None and not seen.knows(spec.uid)):
            shape = shapes.of_spec(spec)
            known = self._get(shape, name, spec.namespace)
            if spec.launch > 1:
                self._end_other(shape, spec, name)
            if known is not None and not self._must_write(known, spec):
                return reference
            had_files = known is not None and _has_files(known)
        self._volumes.ensure_mounts(spec)
        files = self._write_secrets(spec)
        if had_files and not files:
            self._client.delete("v1", "secrets", names.files_secret(name), spec.namespace)
        for obj in shapes.of_spec(spec).build(spec, self._options, files=files):
            made = self._client.apply(obj)  # what owns the pods is the last
        kept_line = not spec.once and spec.serve is None
        if self._options.manages_queues and known is not None and kept_line:
            queues.stand(self._client, made, spec.priority)
        now = time.monotonic()
        if len(self._made) > _MADE_KEPT:
            self._made = {u: m for u, m in self._made.items() if now - m[0] < _MADE_S}
        self._made[spec.uid] = (now, {**made, "kind": obj["kind"]})
        return reference

    def _end_other(self, shape: shapes.Shape, spec: WorkloadSpec, name: str) -> None:
        """Let go of an earlier launch that was run in another way."""
        for other in self._ends() if spec.once else ():
            found = None if other is shape else self._get(other, name, spec.namespace)
            if found is not None and self._is_ours(found, spec.uid):
                other.must_write(self._hands, found, spec)

    def _get(self, shape: shapes.Shape, name: str, namespace: str) -> Object | None:
        """Return it, None where there is none: who may not look for an operator's made none."""
        try:
            found = self._client.get(shape.VERSION, shape.PLURAL, name, namespace)
        except Denied as error:
            if shape in (job, statefulset):
                raise
            log.info("kubernetes.not_looked_for", kind=shape.KIND, error=str(error))
            return None
        return None if found is None else {**found, "kind": shape.KIND}

    def _write_secrets(self, spec: WorkloadSpec) -> bool:
        """Write all that is secret; True when there are files."""
        made = checked(spec.secret_files())
        files = filled(made, spec.placed_files, folder=names.SECRETS, memory=names.MEMORY)
        env = spec.secret_env()
        for secret in build.secrets(spec, self._options, env, files or None):
            self._client.apply(secret)
        return bool(files)

    def refresh(self, spec: WorkloadSpec) -> None:
        """Write the secrets of this launch again; the node brings files to the pod in a minute."""
        found = self.find(spec.uid)
        if found is None or observe.launch_of(found) != spec.launch:
            return
        if not self._write_secrets(spec) and _has_files(found):
            name = names.files_secret(found["metadata"]["name"])
            self._client.patch(
                "v1", "secrets", name, found["metadata"]["namespace"], {"data": None}
            )

    def stand(self, uid: str, *, priority: str, waits: bool) -> bool:
        """Let it stand in its line so. Whoever died in between does all of it again."""
        found = self.find(uid) if self._options.manages_queues else None
        if found is None:
            return True
        if observe_served.is_served(found):  # each pod stands there for itself
            pods = self._hands.pods(found)
            return not pods or queues.stand(self._client, found, priority, waits=waits, pods=pods)
        if priority and _priority_of(found) != priority:
            meta, shape = found["metadata"], shapes.of_owner(found)
            change = {"metadata": {"labels": {names.PRIORITY: priority}}}
            self._client.patch(shape.VERSION, shape.PLURAL, meta["name"], meta["namespace"], change)
        return queues.stand(self._client, found, priority, waits=waits)

    def scale(self, spec: WorkloadSpec) -> None:
        found = self.find(spec.uid)
        if found is None or spec.serve is None or observe.launch_of(found) != spec.launch:
            return
        if observe_served.is_served(found):
            inferenceservice.scale(self._hands, found, spec.serve.replicas)

    def just_made(self, uid: str) -> Object | None:
        """Return what ``ensure`` made within the last second or two; asked once."""
        at, made = self._made.pop(uid, (0.0, None))
        return made if time.monotonic() - at < _MADE_S else None

    def _must_write(self, found: Object, spec: WorkloadSpec) -> bool:
        """False: this launch or a later one is made. NotYet: an older one must end first."""
        meta = found["metadata"]
        if not self._is_ours(found, spec.uid):
            message = f"{meta['name']} exists in {spec.namespace} and is not this workload."
            raise InvalidSpec(message)
        return shapes.of_spec(spec).must_write(self._hands, found, spec)

    # --- end ----------------------------------------------------------------------------------
    def stop(self, uid: str, *, grace_s: float) -> None:
        """Keep StatefulSet or Job (with how it ended) and the volumes; the pod goes."""
        self._made.pop(uid, None)
        found = self.find(uid)
        if found is None:
            return
        shapes.of_owner(found).stop(self._hands, found, grace_s=grace_s)

    def tell(self, uid: str, notice: Mapping[str, str]) -> None:
        """Tell its pods why they are about to end; those that are ending have been told."""
        if (found := self.find(uid)) is not None:
            notices.tell(self._client, [pod for pod in self.pods_of(found) if pod], notice)

    # --- remove -------------------------------------------------------------------------------
    def remove(self, uid: str) -> None:
        """Everything but volumes. NotYet until the pod is seen to be gone."""
        self._made.pop(uid, None)
        place = self._locator.workload(uid)
        if place is None:
            return
        namespace, name = place
        stray = self._locator.was_looked_for(uid)
        whose = self._options.installation
        if stray:
            ending.remove_secrets(self._client, uid, name, namespace, whose)
        self._remove_set(uid, name, namespace)
        for shape in self._ends():
            made = self._get(shape, name, namespace)
            if made is not None and self._is_ours(made, uid):
                self._remove_job(made)
        ending.remove_meeting(self._client, uid, name, namespace, whose)
        # Pods whose Job is gone, which the cluster collects in its own time, and any other
        selector = f"{names.UID}={names.label_value(uid)}"
        found = self._client.list("v1", "pods", namespace, selector)
        pods = [pod for pod in found if not names.is_foreign(pod, self._options.installation)]
        for pod in pods:
            meta = pod["metadata"]
            if not meta.get("deletionTimestamp"):
                self._client.delete("v1", "pods", meta["name"], namespace, uid=meta["uid"])
        if pods:
            raise not_gone(pods[0])
        # its files too: whoever removed its StatefulSet or Job by hand left nothing that names them
        kept = (name, names.files_secret(name), names.log_secret(name))
        for secret in () if stray else kept:
            self._client.delete("v1", "secrets", secret, namespace)
        self._locator.forget(uid)

    def _remove_job(self, found: Object) -> None:
        self._remove_secrets_of(found)
        if not found["metadata"].get("deletionTimestamp"):
            shapes.of_owner(found).remove(self._hands, found)
        raise NotYet(ENDING, retry_in=0.3)

    def _remove_set(self, uid: str, name: str, namespace: str) -> None:
        found = self._get(statefulset, name, namespace)
        if found is not None and self._is_ours(found, uid):
            self._remove_secrets_of(found)
            if not found["metadata"].get("deletionTimestamp"):
                statefulset.remove(self._hands, found)
        pod = self._client.get("v1", "pods", names.pod(name), namespace)
        if pod is not None and self._is_ours(pod, uid):
            if not pod["metadata"].get("deletionTimestamp"):
                own = pod["metadata"]["uid"]
                self._client.delete("v1", "pods", names.pod(name), namespace, uid=own)
            raise not_gone(pod)
        if found is not None and self._is_ours(found, uid):
            raise NotYet(ENDING, retry_in=0.1)

    def _remove_secrets_of(self, found: Object) -> None:
        """Remove those that not every workload has."""
        meta = found["metadata"]
        more = [names.files_secret(meta["name"])] if _has_files(found) else []
        for secret in (*_sidecar_secrets(found), *more):
            self._client.delete("v1", "secrets", secret, meta["namespace"])

    def _is_ours(self, obj: Object, uid: str) -> bool:
        """By what a StatefulSet selects, which nobody can change; of the rest by the label."""
        selected = (obj.get("spec") or {}).get("selector") or {}
        own = (selected.get("matchLabels") or {}).get(names.UID) or uid_of(obj)
        is_its = own == names.label_value(uid)
        return is_its and not names.is_foreign(obj, self._options.installation)

    def adopt(self, uid: str) -> None:
        """Mark what was made before there were marks; nothing restarts by it."""
        found = self.find(uid)
        if found is None or names.INSTALLATION in (found["metadata"].get("labels") or {}):
            return
        meta = found["metadata"]
        change = {
            "metadata": {
                "labels": {names.INSTALLATION: self._options.installation},
                "resourceVersion": meta["resourceVersion"],
            }
        }
        shape = shapes.of_owner(found)
        self._client.patch(shape.VERSION, shape.PLURAL, meta["name"], meta["namespace"], change)

    # --- look ---------------------------------------------------------------------------------
    def find(self, uid: str) -> Object | None:
        """Return the StatefulSet or Job of a uid."""
        place = self._locator.workload(uid)
        if place is None:
            return None
        every: list[shapes.Shape] = [statefulset, *self._ends()]
        for shape in every:
            found = self._get(shape, place[1], place[0])
            if found is not None and self._is_ours(found, uid):
                return found
        return None

    def _ends(self) -> list[shapes.Shape]:
        """Return the shapes of what runs to its end or by an operator, the most usual first."""
        return [job, *shapes.of_operators(self._options.operators)]

    def pods_of(self, found: Object) -> list[Object | None]:
        """Return the pod of each replica."""
        return shapes.of_owner(found).pods(found, self._hands.pods(found))

    def first_pods_of(self, found: Object) -> list[Object]:
        """Return all pods that the first replica had in its launch, also those that failed."""
        return firsts(shapes.of_owner(found).pods, found, self._hands.pods(found))

    def all_with_pods(self) -> tuple[list[tuple[Object, list[Object | None]]], list[Object]]:
        """Return everything of ours, each with its replicas' pods, and all pods: three lists."""
        selector = names.selector(self._options.namespace_prefix)
        pods = self._client.list("v1", "pods", selector=selector)
        of_uid: dict[tuple[str, str], list[Object]] = {}
        for pod in pods:
            of_uid.setdefault((pod["metadata"]["namespace"], uid_of(pod)), []).append(pod)
        sets = self._client.list(statefulset.VERSION, statefulset.PLURAL, selector=selector)
        owners = [{**s, "kind": statefulset.KIND} for s in sets if uid_of(s)]
        for shape in self._ends():
            owners += [{**j, "kind": shape.KIND} for j in self._list_jobs(shape, selector)]
        pairs = []
        for owner in owners:
            its = of_uid.get((owner["metadata"]["namespace"], uid_of(owner)), [])
            pairs.append((owner, shapes.of_owner(owner).pods(owner, its)))
        return pairs, pods

    def _list_jobs(self, shape: shapes.Shape, selector: str) -> list[Object]:
        """Nothing where our identity was attached before there were such and may not list them."""
        try:
            found = self._client.list(shape.VERSION, shape.PLURAL, selector=selector)
        except (Denied, NotYet) as error:
            if shape is job and isinstance(error, NotYet):
                raise
            log.info("kubernetes.no_jobs", kind=shape.KIND, error=str(error))
            return []
        return [one for one in found if uid_of(one)]

    def events_of(self, found: Object) -> list[Object]:
        """Return the latest that the cluster says about it; nothing when it won't say."""
        meta = found["metadata"]
        rows: list[Object] = []
        known = [meta["name"]]
        if observe.has_unnamed_pods(found):
            waiting = [p for p in self.pods_of(found) if p is not None and not observe.is_ready(p)]
            known += [p["metadata"]["name"] for p in waiting[:_EVENTS_PODS]]
        else:
            known.append(names.pod(meta["name"]))
        for name in known:
            try:
                rows += recent_events(
                    self._client, meta["namespace"], [name], most=_EVENTS, seconds=_EVENTS_S
                ).rows
            except DriverError as error:
                log.info("kubernetes.no_events", namespace=meta["namespace"], error=str(error))
        return rows


def _priority_of(found: Object) -> str:
    return str((found["metadata"].get("labels") or {}).get(names.PRIORITY, ""))


def _has_files(found: Object) -> bool:
    """Of an operator's object nobody knows where it has its pods: it may have some."""
    if "template" not in found["spec"]:
        return True
    volumes = found["spec"]["template"]["spec"].get("volumes") or []
    return any(volume["name"] == "secrets" for volume in volumes)


def _sidecar_secrets(found: Object) -> list[str]:
    pod = (found["spec"].get("template") or {}).get("spec") or {}
    containers: list[dict[str, Any]] = pod.get("containers") or []
    return [
        source["secretRef"]["name"]
        for container in containers
        if container["name"] != names.MAIN
        for source in container.get("envFrom") or []
        if "secretRef" in source
    ]
