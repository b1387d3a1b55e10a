"""What runs to its end: a Job, ended so that it stays as the record of how it ended.

A stop does not suspend the Job, because Kueue would let it go on: one that runs gets a deadline
that is over (the Job controller then ends its pod with the pod's own grace), and one that waits
is put into a queue that does not exist. Both are one write, with the note of how it ended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from runtime.drivers.kubernetes import names, observe, observe_job
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.ending import ENDING, not_gone
from runtime.drivers.kubernetes.hurry import hurry
from runtime.drivers.kubernetes.logs import Logs
from runtime.protocol import NotYet, WorkloadSpec

BATCH = "batch/v1"
JOBS = "jobs"


class Jobs:
    """The Jobs of one cluster."""

    def __init__(self, client: KubeClient, logs: Logs, installation: str = "") -> None:
        self._client = client
        self._logs = logs
        self._installation = installation

    def get(self, name: str, namespace: str) -> Object | None:
        found = self._client.get(BATCH, JOBS, name, namespace)
        return None if found is None else {**found, "kind": "Job"}

    def must_write(self, found: Object, spec: WorkloadSpec) -> bool:
        """False: this launch or a later one is made. NotYet: an older one must go first."""
        meta = found["metadata"]
        if meta.get("deletionTimestamp"):
            raise NotYet(ENDING, retry_in=0.3)
        if observe.launch_of(found) >= spec.launch:
            return False
        self.stop(found, grace_s=spec.stop_grace_s)
        # A Job can't be changed into another one: the next launch is a new one of its name.
        self._client.delete(BATCH, JOBS, meta["name"], meta["namespace"], uid=meta["uid"])
        raise NotYet(ENDING, retry_in=0.2)

    def stop(self, found: Object, *, grace_s: float) -> None:
        """NotYet until no pod of it runs and none can come any more."""
        if found["metadata"].get("deletionTimestamp"):
            raise NotYet(ENDING, retry_in=0.5)
        pods = self.pods_of(found)
        launch = observe.launch_of(found)
        if observe.note_of(found).get("launch") != launch:
            self._end(found, observe_job.newest(found, pods))
        alive = [pod for pod in pods if not observe_job.is_over(pod)]
        for pod in alive:
            hurry(self._client, pod, grace_s)
        if alive:
            raise not_gone(alive[0])
        if not (observe_job.is_finished(found) or observe_job.is_suspended(found)):
            raise NotYet(ENDING, retry_in=0.3)  # a pod may just be made

    def _end(self, found: Object, pod: Object | None) -> None:
        """Note how it ended, keep the end of its log, and let no pod come any more."""
        meta, end = found["metadata"], observe_job.note(found, pod)
        if pod is not None:
            self._logs.keep(found, pod)
        note = {"launch": observe.launch_of(found), "at": time.time(), "reason": "stopped"}
        text = json.dumps({**note, **end}, separators=(",", ":"))
        change: dict[str, Any] = {"metadata": {"annotations": {names.ENDED: text}}}
        if not end and observe_job.is_suspended(found):
            change["metadata"]["labels"] = {names.QUEUE: names.OVER}
        elif not end:
            change["spec"] = {"activeDeadlineSeconds": 1}
        self._client.patch(BATCH, JOBS, meta["name"], meta["namespace"], change)

    def remove(self, found: Object) -> None:
        """NotYet until it is gone with all its pods."""
        meta = found["metadata"]
        if not meta.get("deletionTimestamp"):
            self._client.delete(BATCH, JOBS, meta["name"], meta["namespace"], uid=meta["uid"])
        raise NotYet(ENDING, retry_in=0.3)

    def remove_pods(self, uid: str, namespace: str) -> None:
        """Pods whose Job is gone, which the cluster collects in its own time, and any other."""
        selector = f"{names.UID}={names.label_value(uid)}"
        found = self._client.list("v1", "pods", namespace, selector)
        pods = [pod for pod in found if not names.is_foreign(pod, self._installation)]
        for pod in pods:
            meta = pod["metadata"]
            if not meta.get("deletionTimestamp"):
                self._client.delete("v1", "pods", meta["name"], namespace, uid=meta["uid"])
        if pods:
            raise not_gone(pods[0])

    def pods_of(self, found: Object) -> list[Object]:
        meta = found["metadata"]
        return self._of((meta.get("labels") or {}).get(names.UID, ""), meta["namespace"])

    def _of(self, uid: str, namespace: str) -> list[Object]:
        selector = f"{names.UID}={names.label_value(uid)}"
        return [
            pod for pod in self._client.list("v1", "pods", namespace, selector) if is_of_a_job(pod)
        ]


def is_of_a_job(pod: Mapping[str, Any]) -> bool:
    return names.JOB in (pod["metadata"].get("labels") or {})
