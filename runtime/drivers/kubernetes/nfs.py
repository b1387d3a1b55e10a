"""Making and wiping the folder of a volume on an NFS export, by a Job in Berth's own namespace."""

from __future__ import annotations

from runtime.drivers.kubernetes import names, observe_job
from runtime.drivers.kubernetes.builders import nfs as build
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Backing, DriverError, InvalidSpec, NotYet

_ASK_AGAIN_S = 1.0


class NfsFolders:
    """Every verb may be repeated; NotYet while its Job runs."""

    def __init__(self, client: KubeClient, options: KubernetesOptions) -> None:
        self._client = client
        self._options = options

    def make(self, volume_uid: str, on: Backing) -> None:
        self._do(build.MAKE, volume_uid, on)

    def wipe(self, volume_uid: str, on: Backing) -> None:
        self._do(build.WIPE, volume_uid, on)

    def _do(self, verb: str, volume_uid: str, on: Backing) -> None:
        where, name = build.namespace_of(self._options), build.job_name(verb, volume_uid)
        found = self._client.get("batch/v1", "jobs", name, where)
        if found is None:
            self._begin(verb, volume_uid, on)
            raise NotYet("Its folder on the server is being made ready.", retry_in=_ASK_AGAIN_S)
        if found["metadata"].get("deletionTimestamp"):
            raise NotYet("Its folder on the server is being made ready.", retry_in=_ASK_AGAIN_S)
        if not observe_job.is_finished(found):
            raise NotYet("Its folder on the server is being made ready.", retry_in=_ASK_AGAIN_S)
        failed = not observe_job.is_complete(found)
        why = self._why(found) if failed else ""
        self._client.delete("batch/v1", "jobs", name, where)  # the next one asks the server anew
        if failed:
            message = f"The folder of the volume could not be made ready on the server: {why}"
            raise DriverError(message)

    def _begin(self, verb: str, volume_uid: str, on: Backing) -> None:
        made = build.job(verb, volume_uid, on, self._options)
        if not made["spec"]["template"]["spec"]["containers"][0]["image"]:
            message = "The cluster's options name no image that can make folders (data_image)."
            raise InvalidSpec(message)
        where = build.namespace_of(self._options)
        claim = self._client.get("v1", "persistentvolumeclaims", build.top_of(on), where)
        if claim is None:
            found = self._client.get("v1", "namespaces", where)
            if found is not None and names.is_foreign(found, self._options.installation):
                raise InvalidSpec(f"The namespace {where} was made by another Berth.")
            for obj in build.ground(on, self._options):
                self._client.apply(obj)
        self._client.apply(made)

    def _why(self, job: Object) -> str:
        meta = job["metadata"]
        pods = self._client.list("v1", "pods", meta["namespace"], f"job-name={meta['name']}")
        for pod in pods:
            for status in (pod.get("status") or {}).get("containerStatuses") or []:
                ended = (status.get("state") or {}).get("terminated") or {}
                if text := str(ended.get("message") or "").strip():
                    return text.splitlines()[-1][:200]
        return "no pod says why"
