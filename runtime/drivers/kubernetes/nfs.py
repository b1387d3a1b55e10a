"""Folders on an NFS export: who makes and wipes them, and where that runs.

A server only exports; the folder of a volume is made and wiped by a short Job in a namespace of
Berth's own, as the user that workloads run as (so root squash stands in nobody's way). There
the whole export is mounted; in no other namespace can it be claimed.
"""

import hashlib
from typing import Any

from runtime.drivers.kubernetes import names, observe_job
from runtime.drivers.kubernetes.builders import pod_fields, tenant_access
from runtime.drivers.kubernetes.builders.tenant import RESTRICTED
from runtime.drivers.kubernetes.builders.volume import nfs_source, plain
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import DriverError, InvalidSpec, NotYet
from runtime.spec import Backing

MAKE, WIPE = "make", "wipe"
_TOP = "/export"
_LONGEST_S, _KEPT_S = 6 * 3600, 300
# Out of the way first: a new volume never sees what is being wiped. ``rm`` descends by descriptors
# and needs no stack. Folders that their owner closed to himself (caches of tools) are opened first.
SCRIPT = """
import os, subprocess, sys
verb, name = sys.argv[1:]
os.umask(0o077)
top = os.open("/export", os.O_RDONLY | os.O_DIRECTORY)
if verb == "make":
    try:
        os.mkdir(name, 0o700, dir_fd=top)
    except FileExistsError:
        if not os.path.isdir(f"/export/{name}") or os.path.islink(f"/export/{name}"):
            raise
else:
    old = f".wiping-{name}"
    try:
        os.rename(name, old, src_dir_fd=top, dst_dir_fd=top)
    except FileNotFoundError:
        pass
    os.fchdir(top)
    remove = ["rm", "-rf", "--one-file-system", "--", old]
    if subprocess.run(remove, stderr=subprocess.DEVNULL).returncode:
        subprocess.run(["chmod", "-R", "u+rwX", "--", old], stderr=subprocess.DEVNULL)
        done = subprocess.run(remove, stderr=subprocess.PIPE)
        if done.returncode:
            sys.exit(done.stderr.decode(errors="replace").strip()[-500:])
"""


def namespace_of(options: KubernetesOptions) -> str:
    return f"{options.namespace_prefix}volumes"


def ground(on: Backing, options: KubernetesOptions) -> list[dict[str, Any]]:
    """Return the namespace with what keeps it closed, and the export as a claim in it."""
    where = namespace_of(options)
    marks = names.marks(options.namespace_prefix, options.installation)
    top = top_of(on)
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"labels": {**marks, **RESTRICTED}, "name": where},
        },
        *tenant_access.portal(where, marks, options),
        {  # the node mounts; the pod itself talks to nobody
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"labels": marks, "name": "default-deny", "namespace": where},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"labels": marks, "name": f"berth-{top}"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "capacity": {"storage": "1Gi"},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "name": top,
                    "namespace": where,
                },
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "volumeMode": "Filesystem",
                **nfs_source(on, ""),
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"labels": marks, "name": top, "namespace": where},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "",
                "volumeName": f"berth-{top}",
            },
        },
    ]


def top_of(on: Backing) -> str:
    """One claim for each export and way to mount it."""
    said = "|".join((on.kind, *(on.options.get(n, "") for n in ("server", "export", "driver"))))
    return f"nfs-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def job_name(verb: str, volume_uid: str) -> str:
    return f"{verb}-{names.claim(volume_uid)}"


def job(verb: str, volume_uid: str, on: Backing, options: KubernetesOptions) -> dict[str, Any]:
    container = {
        "command": ["python3", "-I", "-c", SCRIPT, verb, plain(volume_uid)],
        "env": pod_fields.named(pod_fields.NONE),
        "image": options.data_image or options.default_image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "limits": {"cpu": "1", "memory": "256Mi"},
            "requests": {"cpu": "10m", "memory": "32Mi"},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"mountPath": _TOP, "name": "export"}],
    }
    return pod_fields.short_job(
        {
            "labels": names.marks(options.namespace_prefix, options.installation),
            "name": job_name(verb, volume_uid),
            "namespace": namespace_of(options),
        },
        container,
        options.run_as_user,
        longest_s=_LONGEST_S,
        kept_s=_KEPT_S,
        tries=3,
        volumes=[{"name": "export", "persistentVolumeClaim": {"claimName": top_of(on)}}],
    )


_ASK_AGAIN_S = 1.0


class NfsFolders:
    """Every verb may be repeated; NotYet while its Job runs."""

    def __init__(self, client: KubeClient, options: KubernetesOptions) -> None:
        self._client = client
        self._options = options

    def make(self, volume_uid: str, on: Backing) -> None:
        self._do(MAKE, volume_uid, on)

    def wipe(self, volume_uid: str, on: Backing) -> None:
        self._do(WIPE, volume_uid, on)

    def _do(self, verb: str, volume_uid: str, on: Backing) -> None:
        where, name = namespace_of(self._options), job_name(verb, volume_uid)
        found = self._client.get("batch/v1", "jobs", name, where)
        if found is None:
            self._begin(verb, volume_uid, on)
        if (
            found is None
            or found["metadata"].get("deletionTimestamp")
            or not observe_job.is_finished(found)
        ):
            raise NotYet("Its folder on the server is being made ready.", retry_in=_ASK_AGAIN_S)
        failed = not observe_job.is_complete(found)
        why = self._why(found) if failed else ""
        self._client.delete("batch/v1", "jobs", name, where)  # the next one asks the server anew
        if failed:
            message = f"The folder of the volume could not be made ready on the server: {why}"
            raise DriverError(message)

    def _begin(self, verb: str, volume_uid: str, on: Backing) -> None:
        made = job(verb, volume_uid, on, self._options)
        if not made["spec"]["template"]["spec"]["containers"][0]["image"]:
            message = "The cluster's options name no image that can make folders (data_image)."
            raise InvalidSpec(message)
        where = namespace_of(self._options)
        claim = self._client.get("v1", "persistentvolumeclaims", top_of(on), where)
        if claim is None:
            found = self._client.get("v1", "namespaces", where)
            if found is not None and names.is_foreign(found, self._options.installation):
                raise InvalidSpec(f"The namespace {where} was made by another Berth.")
            for obj in ground(on, self._options):
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
