"""Fields of any pod that Berth makes: devices, the meeting of a group, the choice of a node. Pure.

The hooks of a node's GPU runtime read a container's environment before its program starts, and
an image brings one of its own: a CUDA image says "all". So every container that Berth makes is
told that it sees the GPUs it was given, or none (C4), its helpers and short checks too.

Pods of a namespace do not reach each other (``builders/tenant_policies``); policies add up, and
a group's opens each pod of a workload to the others of the same workload, and to nobody else's.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from runtime import training
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.spec import Placement, WorkloadSpec

Object = dict[str, Any]

# What those hooks would load from an image's own environment: emptied.
_LOADED = {"LD_AUDIT": "", "LD_PRELOAD": ""}
# Their device plugin names the given ones.
GIVEN: Mapping[str, str] = {**_LOADED, "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
NONE: Mapping[str, str] = {**_LOADED, "NVIDIA_VISIBLE_DEVICES": "void"}


# What every container of ours is kept from.
LOCKED: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def as_user(user: int, *, owns_volumes: bool) -> Object:
    """Return the security context of a pod; with ``owns_volumes`` its group owns files there."""
    owner = {"fsGroup": user, "fsGroupChangePolicy": "OnRootMismatch"} if owns_volumes else {}
    return {
        **owner,
        "runAsGroup": user,
        "runAsNonRoot": True,
        "runAsUser": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def short_job(
    meta: Mapping[str, Any],
    container: Mapping[str, Any],
    user: int,
    *,
    longest_s: int,
    kept_s: int,
    tries: int = 0,
    owns_volumes: bool = False,
    **pod: Any,
) -> Object:
    """Return a Job that removes itself, of one container as locked as any other."""
    template = {
        "automountServiceAccountToken": False,
        "containers": [{"name": names.MAIN, "securityContext": LOCKED, **container}],
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": as_user(user, owns_volumes=owns_volumes),
        **pod,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": dict(meta),
        "spec": {
            "activeDeadlineSeconds": longest_s,
            "backoffLimit": tries,
            "template": {"metadata": {"labels": meta["labels"]}, "spec": template},
            "ttlSecondsAfterFinished": kept_s,
        },
    }


def is_refused(name: str) -> bool:
    """What nobody may say: it reaches into those hooks."""
    return name.startswith(("LD_", "NVIDIA_")) and name != "LD_LIBRARY_PATH"


def named(values: Mapping[str, str]) -> list[dict[str, str]]:
    """As a container's ``env``, where it has no Secret."""
    return [{"name": name, "value": value} for name, value in values.items()]


MEETING_PORT = 29500  # a pod's network is its own, so the usual one is free
NUMBER = {"fieldRef": {"fieldPath": f"metadata.annotations['{names.INDEX}']"}}
_LABELLED = {"fieldRef": {"fieldPath": f"metadata.labels['{names.ROLE_INDEX}']"}}
# Operators that make a set of pods of each role: these have no number of the whole.
_IN_ROLES = frozenset((training.MPI_OPERATOR, training.JOBSET, training.TFJOB))

OWN_NUMBER = ("BERTH_REPLICA", "RANK")


def hosts(spec: WorkloadSpec) -> list[str]:
    """Return the host of each replica, as it is resolved in the pods themselves."""
    name = names.workload(spec.name, spec.uid)
    if spec.operator == training.MPI_OPERATOR:
        workers = (f"{name}-worker-{number}.{name}" for number in range(spec.replicas - 1))
        return [f"{name}-launcher.{name}", *workers]
    if spec.operator == training.TRAINER:
        return [f"{name}-{training.NODE}-0-{number}.{name}" for number in range(spec.replicas)]
    if spec.operator == training.PYTORCHJOB:
        return [f"{name}-worker-{number}" for number in range(spec.replicas)]
    each = [(group.role, number) for group in spec.groups for number in range(group.replicas)]
    if spec.operator == training.TFJOB:
        return [f"{name}-{role}-{number}" for role, number in each]
    if spec.operator == training.JOBSET:
        return [f"{name}-{role}-0-{number}.{name}" for role, number in each]
    return [f"{name}-{number}.{name}" for number in range(spec.replicas)]


def meeting_places(spec: WorkloadSpec) -> list[str]:
    return [f"{host}:{MEETING_PORT}" for host in hosts(spec)]


def environment(spec: WorkloadSpec) -> dict[str, str]:
    """Return what all replicas are told alike."""
    if not spec.is_group:
        return {}
    found = hosts(spec)
    told = {
        "BERTH_HOSTS": ",".join(found),
        "MASTER_ADDR": found[0],
        "MASTER_PORT": str(MEETING_PORT),
        "WORLD_SIZE": str(len(found)),
    }
    if spec.framework == training.PYTORCH:
        told |= training.torch_environment(len(found), found[0], MEETING_PORT, spec.resources.gpus)
    return told


def own_number(spec: WorkloadSpec) -> list[Object]:
    """Return what each is told for itself, which one template can say by a reference only."""
    if not spec.is_group or spec.operator in _IN_ROLES:
        return []
    number = _LABELLED if spec.operator == training.PYTORCHJOB else NUMBER
    told = [*OWN_NUMBER, *(["PET_NODE_RANK"] if spec.framework == training.PYTORCH else [])]
    found: list[Object] = [{"name": name, "valueFrom": number} for name in told]
    if spec.framework == training.TENSORFLOW:
        text = training.tf_config(spec.groups, meeting_places(spec), spec.groups[0].role, 0)
        own = text.replace('"index":0', '"index":$(BERTH_REPLICA)')
        found.append({"name": "TF_CONFIG", "value": own})
    return found


def meeting(meta: Mapping[str, Any]) -> list[Object]:
    """Return the Service that names the pods and the policy that lets them reach each other."""
    pods = {names.UID: meta["labels"][names.UID]}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": dict(meta),
            # They look for each other before any of them answers a probe.
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": pods},
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": dict(meta),
            "spec": _among(pods),
        },
    ]


# What a group has besides Secrets: apiVersion and plural, of the workload's own name.
KINDS = (("v1", "services"), ("networking.k8s.io/v1", "networkpolicies"))


def is_meeting(policy: Mapping[str, Any]) -> bool:
    """Whether a policy is one of these and opens nothing else."""
    uid = str((policy["metadata"].get("labels") or {}).get(names.UID, ""))
    return bool(uid) and policy.get("spec") == _among({names.UID: uid})


def _among(pods: Mapping[str, str]) -> Object:
    peers = [{"podSelector": {"matchLabels": dict(pods)}}]
    return {
        "podSelector": {"matchLabels": dict(pods)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": peers}],
        "egress": [{"to": peers}],
    }


def way(meta: Mapping[str, Any], peers: Iterable[Any], ports: Iterable[int]) -> Object:
    """Return the policy that lets those who carry requests reach what serves at its ports."""
    pods = {names.UID: meta["labels"][names.UID]}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": dict(meta),
        "spec": _from(pods, list(peers), ports),
    }


def is_way(policy: Mapping[str, Any], proxy: Mapping[str, Any] | None) -> bool:
    """Whether a policy is one of these and opens nothing else.

    ``proxy``: that of the project, which says who they are.
    """
    uid = str((policy["metadata"].get("labels") or {}).get(names.UID, ""))
    known, spec = ((proxy or {}).get("spec") or {}).get("ingress"), policy.get("spec") or {}
    if not uid or not known or not spec.get("ingress"):
        return False
    ports = [one.get("port") for one in spec["ingress"][0].get("ports") or ()]
    return bool(ports) and spec == _from({names.UID: uid}, known[0].get("from"), ports)


def _from(pods: Mapping[str, str], peers: Any, ports: Iterable[int]) -> Object:
    return {
        "podSelector": {"matchLabels": dict(pods)},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": peers, "ports": [{"port": p, "protocol": "TCP"} for p in ports]}],
    }


# No node has this taint. It tells Kueue which flavors are for work with devices only: other work
# would be led there as soon as its project has a guarantee in them.
DEVICES = f"{names.DOMAIN}/devices"
_TOLERATED: Mapping[str, str] = {"key": DEVICES, "operator": "Exists"}

_HOSTNAME, _ARCH = "kubernetes.io/hostname", "kubernetes.io/arch"
_HEAVIEST = 100


def placing(spec: WorkloadSpec, options: KubernetesOptions) -> dict[str, Any]:
    """Return the fields of a workload's pod that choose its node."""
    found = nodes(spec.placement, options, devices=bool(spec.resources.gpus))
    # Where an order is asked for, being together must not outweigh it: both count the same.
    if spec.resources.gpus and not options.scheduler and not _liked(spec.placement):
        # Without a packing scheduler: prefer nodes on which GPU pods already are
        term = {
            "labelSelector": {"matchLabels": {names.GPU: "true"}},
            "namespaceSelector": {},
            "topologyKey": _HOSTNAME,
        }
        weighted = {"weight": 100, "podAffinityTerm": term}
        found.setdefault("affinity", {})["podAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [weighted]
        }
    if spec.resources.gpus and options.scheduler:
        found["schedulerName"] = options.scheduler
    return found


def nodes(
    placement: Placement, options: KubernetesOptions, *, devices: bool = False
) -> dict[str, Any]:
    """Return the same of any pod of a tenant, however short its work is."""
    found: dict[str, Any] = {}
    if placement.node_labels:
        found["nodeSelector"] = dict(sorted(placement.node_labels.items()))
    affinity: dict[str, Any] = {}
    # One term for each acceptable set of labels; each keeps off what must be avoided
    machines = sorted(placement.architectures)
    runs = [{"key": _ARCH, "operator": "In", "values": machines}] if machines else []
    avoided = [
        {"key": key, "operator": "NotIn", "values": sorted(values)}
        for key, values in sorted(placement.avoid.items())
    ]
    kinds: Iterable[Mapping[str, str]] = placement.any_of or ({},)
    wanted = [[*_carries(labels), *runs, *avoided] for labels in kinds]
    if terms := [{"matchExpressions": term} for term in wanted if term]:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    # Work is drawn to its data as much as GPU pods to each other, but not where somebody asked for
    # an order of kinds: the weights are summed, and would upset it.
    near = [
        {"weight": _HEAVIEST, "preference": {"matchExpressions": _carries(labels)}}
        for labels in placement.near
        if labels
    ]
    if liked := _liked(placement) or near:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = liked
    if affinity:
        found["affinity"] = {"nodeAffinity": affinity}
    tolerations = [_toleration(t) for t in placement.tolerations]
    if options.manages_queues and (devices or placement.any_of):
        tolerations.append(dict(_TOLERATED))
    if tolerations:
        found["tolerations"] = tolerations
    return found


def gpu_labels(spec: WorkloadSpec) -> dict[str, str]:
    """What others of the kind are drawn to, on pods that hold GPUs."""
    return {names.GPU: "true"} if spec.resources.gpus else {}


def _liked(placement: Placement) -> list[dict[str, Any]]:
    """What makes the scheduler take the first kind that has room, when there is an order.

    It scales the sum of each node by the best of those that have room. So weights fall by a
    factor: whichever kind is the first with room, the next is far behind it.
    """
    kinds = len(set(placement.ranks))
    if kinds < 2:  # noqa: PLR2004 - one kind has no order
        return []
    return [
        {"weight": weight, "preference": {"matchExpressions": _carries(labels)}}
        for labels, rank in zip(placement.any_of, placement.ranks, strict=True)
        if labels and (weight := _weight(rank, kinds))
    ]


def _weight(rank: int, kinds: int) -> int:
    """100 for the first of several kinds, 1 for the one before the last, nothing for the last."""
    if rank >= kinds - 1:
        return 0
    return round(_HEAVIEST ** (1 - rank / (kinds - 2))) if rank else _HEAVIEST


def _carries(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": k, "operator": "In", "values": [v]} for k, v in sorted(labels.items())]


def _toleration(given: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {key: value for key, value in given.items() if value != ""}
    if "tolerationSeconds" in found:
        found["tolerationSeconds"] = int(found["tolerationSeconds"])
    return found
