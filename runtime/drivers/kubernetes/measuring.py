"""What volumes take, said by a short Job beside the data. The pod's last words are the answer.

It runs in the project's namespace, where the claim is, as the user that workloads run as: it sees
the volume read-only, stands in no queue and asks for next to nothing. Nobody but Berth makes pods
there, so nobody else can say a size: only the pod that the Job itself made is asked, only about the
volume that the Job is named after.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.capabilities.volumes import Measured
from runtime.drivers.kubernetes import names, observe_job
from runtime.drivers.kubernetes.builders import pod_fields
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.volumes import Volumes
from runtime.protocol import DriverError, NotYet
from runtime.spec import Placement

WALKS_S = 600  # then it says what it has
LONGEST_S = 900  # with being placed and its image pulled
KEPT_S = 300
_ROOT = "data"


@dataclass(frozen=True)
class Beside:
    """The only node that can have the volume now, and what let its user in there."""

    node: str
    tolerations: Sequence[Mapping[str, Any]] = ()


def job_name(volume_uid: str) -> str:
    return f"measure-{names.claim(volume_uid)}"


def job(
    volume_uid: str, namespace: str, options: KubernetesOptions, where: Placement | Beside
) -> dict[str, Any]:
    claim = names.claim(volume_uid)
    marks = names.marks(options.namespace_prefix, options.installation)
    words = ["--root", _ROOT, "--seconds", str(WALKS_S)]
    container = {
        "command": ["python3", "-m", "dataplane.measuring", *words],
        "env": pod_fields.named({"BERTH_VOLUMES": names.VOLUMES, **pod_fields.NONE}),
        "image": options.data_image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "limits": {"cpu": "500m", "ephemeral-storage": "64Mi", "memory": "512Mi"},
            "requests": {"cpu": "10m", "ephemeral-storage": "0", "memory": "32Mi"},
        },
        "securityContext": {**pod_fields.LOCKED, "readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"mountPath": f"{names.VOLUMES}/{_ROOT}", "name": _ROOT, "readOnly": True}
        ],
    }
    return pod_fields.short_job(
        {
            "labels": {**marks, names.KIND: "measuring"},
            "name": job_name(volume_uid),
            "namespace": namespace,
        },
        container,
        options.run_as_user,
        longest_s=LONGEST_S,
        kept_s=KEPT_S,
        owns_volumes=True,
        imagePullSecrets=[{"name": names.REGISTRIES}],
        terminationGracePeriodSeconds=1,
        volumes=[{"name": _ROOT, "persistentVolumeClaim": {"claimName": claim}}],
        **(_on(where) if isinstance(where, Beside) else pod_fields.nodes(where, options)),
        **({"hostUsers": False} if options.user_namespaces else {}),
    )


def _on(beside: Beside) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [beside.node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    found: dict[str, Any] = {"affinity": {"nodeAffinity": required}}
    if beside.tolerations:
        found["tolerations"] = [dict(one) for one in beside.tolerations]
    return found


_BATCH, _JOBS = "batch/v1", "jobs"
_ASK_AGAIN_S = 2.0
_MOST = 2**60
_MANY_NODES, _ONE_POD = "ReadWriteMany", "ReadWriteOncePod"


class Measuring:
    """``SupportsMeasuring`` of one cluster."""

    def __init__(self, client: KubeClient, options: KubernetesOptions, volumes: Volumes) -> None:
        self._client = client
        self._options = options
        self._volumes = volumes

    def measure(self, volume_uid: str, placement: Placement) -> Measured | None:
        """Begin, or look how far it is; the Job goes when its answer was read."""
        where = self._volumes.namespace_of(volume_uid)
        if not where or not self._options.data_image:
            return None
        name = job_name(volume_uid)
        found = self._client.get(_BATCH, _JOBS, name, where)
        if found is None:
            return self._begin(volume_uid, where, placement)
        if found["metadata"].get("deletionTimestamp") or not observe_job.is_finished(found):
            raise NotYet("The volume is being measured.", retry_in=_ASK_AGAIN_S)
        said = self._last_words(found)
        self._client.delete(_BATCH, _JOBS, name, where, uid=found["metadata"]["uid"])
        if not observe_job.is_complete(found) or (answer := parsed(said)) is None:
            raise DriverError(
                f"The volume could not be measured: {said[:200] or 'nobody says why'}"
            )
        return answer

    def end(self, volume_uid: str) -> None:
        """Let go of the volume: a pod that has it mounted keeps its claim from going."""
        where = self._volumes.namespace_of(volume_uid)
        if where:
            self._client.delete(_BATCH, _JOBS, job_name(volume_uid), where)

    def _begin(self, volume_uid: str, where: str, placement: Placement) -> Measured | None:
        claim = self._volumes.claim(volume_uid, where)
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return None
        if (claim.get("status") or {}).get("phase") != "Bound":
            # Nobody ever had it; the first one decides where it lies. Not so what comes from a
            # snapshot, has its volume already (a move), or lost it.
            spec = claim["spec"]
            begun = any(spec.get(word) for word in ("dataSource", "dataSourceRef", "volumeName"))
            waits = (claim.get("status") or {}).get("phase") == "Pending"
            return Measured(0) if waits and not begun else None
        if _MANY_NODES in (claim["spec"].get("accessModes") or []):
            found: Placement | Beside | None = placement
        else:
            found = self._beside_its_user(claim)
        if found is None:
            return None
        self._client.apply(job(volume_uid, where, self._options, found))
        raise NotYet("The volume is being measured.", retry_in=_ASK_AGAIN_S)

    def _beside_its_user(self, claim: Object) -> Beside | None:
        """Return where what one node may have at a time is measured: beside the pod that has it.

        Else not: no start elsewhere ever waits for a measurement. What let that pod onto its
        node (one with GPUs is often tainted) lets the measurement.
        """
        if _ONE_POD in (claim["spec"].get("accessModes") or []):
            return None
        meta = claim["metadata"]
        for pod in self._client.list("v1", "pods", meta["namespace"]):
            spec = pod["spec"]
            if _uses(pod, meta["name"]) and not observe_job.is_over(pod):
                node = str(spec.get("nodeName") or "")
                return Beside(node, spec.get("tolerations") or ()) if node else None
        return None

    def _last_words(self, job: Object) -> str:
        meta = job["metadata"]
        selector = f"{names.JOB}={meta['name']}"
        for pod in self._client.list("v1", "pods", meta["namespace"], selector=selector):
            owners = pod["metadata"].get("ownerReferences") or []
            if all(owner.get("uid") != meta["uid"] for owner in owners):
                continue
            for status in (pod.get("status") or {}).get("containerStatuses") or []:
                ended = (status.get("state") or {}).get("terminated") or {}
                if text := str(ended.get("message") or ended.get("reason") or "").strip():
                    return text
        return ""


def parsed(said: str) -> Measured | None:
    """Return what the program said; None where it is anything else."""
    try:
        found = json.loads(said)
    except ValueError:
        return None
    if not isinstance(found, Mapping):
        return None
    taken, seconds = _number(found.get("bytes")), _number(found.get("seconds"))
    if taken is None or seconds is None:
        return None
    return Measured(min(int(taken), _MOST), whole=found.get("whole") is True, seconds=seconds)


def _number(found: object) -> float | int | None:
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return found if math.isfinite(found) and found >= 0 else None


def _uses(pod: Mapping[str, Any], claim: str) -> bool:
    return any(
        (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim
        for volume in pod["spec"].get("volumes") or []
    )
