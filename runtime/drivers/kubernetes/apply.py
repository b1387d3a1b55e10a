"""Making, ending and removing one workload. Every step may be run again after a crash.

A launch in a project that has its place costs two writes (Secret, StatefulSet or Job), three
with secret files; the first with a new volume two more. A Job's next launch removes the Job of
the one before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from runtime.drivers import mount_names
from runtime.drivers.kubernetes import leftovers, names, observe, observe_job
from runtime.drivers.kubernetes.builders import workload as build
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.cluster_cache import World
from runtime.drivers.kubernetes.ending import ENDING, not_gone
from runtime.drivers.kubernetes.hurry import hurry
from runtime.drivers.kubernetes.jobs import BATCH, JOBS, Jobs, is_of_a_job
from runtime.drivers.kubernetes.keys import uid_of
from runtime.drivers.kubernetes.locate import Locator
from runtime.drivers.kubernetes.logs import Logs
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.recent import recent_events
from runtime.drivers.kubernetes.volumes import Volumes
from runtime.drivers.secret_files import checked, filled
from runtime.protocol import Denied, DriverError, InvalidSpec, NotYet, WorkloadSpec

log = structlog.get_logger(__name__)

APPS = "apps/v1"
SETS = "statefulsets"
_MADE_S, _MADE_KEPT = 2.0, 1000
_EVENTS, _EVENTS_S = 50, 1.0  # the latest say why it waits; a flood of them holds nobody up


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
        self._logs = logs
        self._jobs = Jobs(client, logs, options.installation)

    # --- make ---------------------------------------------------------------------------------
    def ensure(self, spec: WorkloadSpec) -> Mapping[str, object]:
        if not spec.image or not spec.namespace:
            raise InvalidSpec("It names no image, so it cannot run on a cluster.")
        mount_names.check(spec.mounts)
        name = names.workload(spec.name, spec.uid)
        self._locator.remember(spec.uid, spec.namespace, name)
        pod = "" if spec.once else names.pod(name)
        reference = {"namespace": spec.namespace, "name": name, "pod": pod}
        had_files = False
        if not self._is_new(spec):
            found = self._there(spec, name)
            if found is not None and not self._must_write(found, spec):
                return reference
            had_files = found is not None and _has_files(found)
        self._volumes.ensure_mounts(spec)
        files = self._write_secrets(spec)
        if had_files and not files:
            self._client.delete("v1", "secrets", names.files_secret(name), spec.namespace)
        make = build.job if spec.once else build.statefulset
        made = self._client.apply(make(spec, self._options, files=files))
        self._remember(spec.uid, made)
        return reference

    def _there(self, spec: WorkloadSpec, name: str) -> Object | None:
        if spec.once:
            return self._jobs.get(name, spec.namespace)
        return self._client.get(APPS, SETS, name, spec.namespace)

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

    def _is_new(self, spec: WorkloadSpec) -> bool:
        """A first launch that the watch has never seen needs no look: one worker has the row.

        Should it exist all the same, made a moment ago by a worker that died, then what is
        applied is what is there.
        """
        seen = self._watched()
        return spec.launch == 1 and seen is not None and not seen.knows(spec.uid)

    def _remember(self, uid: str, made: Object) -> None:
        """The answer of the write is as good as a read, for a moment."""
        now = time.monotonic()
        if len(self._made) > _MADE_KEPT:
            self._made = {u: m for u, m in self._made.items() if now - m[0] < _MADE_S}
        self._made[uid] = (now, made)

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
        if spec.once:
            return self._jobs.must_write(found, spec)
        if meta.get("deletionTimestamp"):
            raise NotYet(ENDING, retry_in=0.5)
        if observe.launch_of(found) >= spec.launch:
            return False
        pod = self.pod_of(found)
        if pod is None and not observe.replicas_of(found):
            return True
        if pod is not None and observe.ending_of(pod) is not None:
            return True  # it ended by itself; the new description replaces its pod
        if observe.replicas_of(found):  # asked once: what is held by something comes here often
            self._scale_down(found, pod)
        raise not_gone(pod)

    # --- end ----------------------------------------------------------------------------------
    def stop(self, uid: str, *, grace_s: float) -> None:
        """Keep StatefulSet or Job (with how it ended) and the volumes; the pod goes."""
        self._made.pop(uid, None)
        found = self.find(uid)
        if found is None:
            return
        if observe.is_job(found):
            self._jobs.stop(found, grace_s=grace_s)
            return
        if found["metadata"].get("deletionTimestamp"):
            raise NotYet(ENDING, retry_in=0.5)
        pod = self.pod_of(found)
        if observe.replicas_of(found):
            found = self._scale_down(found, pod)
        if pod is not None:
            hurry(self._client, pod, grace_s)
            raise not_gone(pod)
        status = found.get("status") or {}
        if int(status.get("observedGeneration", 0)) < int(found["metadata"].get("generation", 0)):
            raise NotYet(ENDING, retry_in=0.1)  # a pod may just be made

    def _scale_down(self, found: Object, pod: Object | None) -> Object:
        """Note how it ended, keep the end of its log, and want no pod: one write, two at most."""
        launch = observe.launch_of(found)
        end = None
        if pod is not None and observe.launch_of(pod) == launch:
            end = observe.ending_of(pod)
            self._logs.keep(found, pod)
        note = {"launch": launch, "at": time.time(), "reason": "stopped", **(end or {})}
        change = {
            "metadata": {"annotations": {names.ENDED: json.dumps(note, separators=(",", ":"))}},
            "spec": {"replicas": 0},
        }
        meta = found["metadata"]
        return self._client.patch(APPS, SETS, meta["name"], meta["namespace"], change) or found

    # --- remove -------------------------------------------------------------------------------
    def remove(self, uid: str) -> None:
        """Everything but volumes. NotYet until the pod is seen to be gone."""
        self._made.pop(uid, None)
        place = self._locator.workload(uid)
        if place is None:
            return
        namespace, name = place
        stray = self._locator.was_looked_for(uid)
        if stray:
            whose = self._options.installation
            leftovers.remove_secrets(self._client, uid, name, namespace, whose)
        self._remove_set(uid, name, namespace)
        job = self._jobs.get(name, namespace)
        if job is not None and self._is_ours(job, uid):
            self._remove_secrets_of(job)
            self._jobs.remove(job)
        self._jobs.remove_pods(uid, namespace)
        # its files too: whoever removed its StatefulSet or Job by hand left nothing that names them
        kept = (name, names.files_secret(name), names.log_secret(name))
        for secret in () if stray else kept:
            self._client.delete("v1", "secrets", secret, namespace)
        self._locator.forget(uid)

    def _remove_set(self, uid: str, name: str, namespace: str) -> None:
        found = self._client.get(APPS, SETS, name, namespace)
        if found is not None and self._is_ours(found, uid):
            self._remove_secrets_of(found)
            if not found["metadata"].get("deletionTimestamp"):
                self._client.delete(APPS, SETS, name, namespace)
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
        version, plural = (BATCH, JOBS) if observe.is_job(found) else (APPS, SETS)
        self._client.patch(version, plural, meta["name"], meta["namespace"], change)

    # --- look ---------------------------------------------------------------------------------
    def find(self, uid: str) -> Object | None:
        """Return the StatefulSet or Job of a uid."""
        place = self._locator.workload(uid)
        if place is None:
            return None
        found = self._client.get(APPS, SETS, place[1], place[0])
        if found is None:
            found = self._jobs.get(place[1], place[0])
        return found if found is not None and self._is_ours(found, uid) else None

    def pod_of(self, found: Object) -> Object | None:
        meta = found["metadata"]
        if observe.is_job(found):
            return observe_job.newest(found, self._jobs.pods_of(found))
        return self._client.get("v1", "pods", names.pod(meta["name"]), meta["namespace"])

    def all_with_pods(self) -> tuple[list[tuple[Object, Object | None]], list[Object]]:
        """Return everything of ours, each with its pod, and all pods: three lists."""
        selector = names.selector(self._options.namespace_prefix)
        pods = self._client.list("v1", "pods", selector=selector)
        named = {(p["metadata"]["namespace"], p["metadata"]["name"]): p for p in pods}
        of_jobs = [p for p in pods if is_of_a_job(p)]
        sets = [
            (s, named.get((s["metadata"]["namespace"], names.pod(s["metadata"]["name"]))))
            for s in self._client.list(APPS, SETS, selector=selector)
            if names.UID in (s["metadata"].get("labels") or {})
        ]
        jobs = [{**j, "kind": "Job"} for j in self._list_jobs(selector)]
        return sets + [(j, observe_job.newest(j, _pods_of(j, of_jobs))) for j in jobs], pods

    def _list_jobs(self, selector: str) -> list[Object]:
        """Nothing where our identity was attached before there were Jobs and may not list them."""
        try:
            return self._client.list(BATCH, JOBS, selector=selector)
        except Denied as error:
            log.info("kubernetes.no_jobs", error=str(error))
            return []

    def events_of(self, found: Object) -> list[Object]:
        """Return the latest that the cluster says about it; nothing when it won't say."""
        meta = found["metadata"]
        rows: list[Object] = []
        pod = self.pod_of(found) if observe.is_job(found) else None
        second = pod["metadata"]["name"] if pod is not None else names.pod(meta["name"])
        for name in (meta["name"], second):
            try:
                rows += recent_events(
                    self._client, meta["namespace"], [name], most=_EVENTS, seconds=_EVENTS_S
                ).rows
            except DriverError as error:
                log.info("kubernetes.no_events", namespace=meta["namespace"], error=str(error))
        return rows


def _pods_of(job: Object, pods: list[Object]) -> list[Object]:
    meta = job["metadata"]
    return [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] == meta["namespace"]
        and pod["metadata"]["labels"][names.JOB] == meta["name"]
    ]


def _has_files(found: Object) -> bool:
    volumes = found["spec"]["template"]["spec"].get("volumes") or []
    return any(volume["name"] == "secrets" for volume in volumes)


def _sidecar_secrets(found: Object) -> list[str]:
    containers: list[dict[str, Any]] = found["spec"]["template"]["spec"]["containers"]
    return [
        source["secretRef"]["name"]
        for container in containers
        if container["name"] != names.MAIN
        for source in container.get("envFrom") or []
        if "secretRef" in source
    ]
