"""The isolation bundle of one project: every object that keeps its namespace to itself. Pure.

All fields that the API server would fill in are written out, and quantities are in their
canonical form, so that a live object that nobody touched is equal to what is built here. Limits are
counts of objects, storage, and defaults for containers, never GPUs: those are the queue's.

The namespace carries the annotation ``berth.dev/bundle``: ``Kind/name`` → hash of every object
that belongs there. Whoever watches can tell from live objects alone what is missing or was
changed by hand; nobody needs to know what we would build.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from runtime.capabilities.tenants import TenantSpec
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import tenant_access, tenant_policies
from runtime.drivers.kubernetes.options import KubernetesOptions

Object = dict[str, Any]

BUNDLE = "berth.dev/bundle"  # annotation of the namespace: what belongs here, with its hash
MARK = "berth.dev/made-from"  # annotation: ``TenantSpec.mark``
QUEUE = "berth.dev/queue"
PLACE = "place"
# Explicit, so that an upgrade of the cluster changes nothing by itself. A server that is older
# takes its newest. From 1.35 on a pod in a user namespace of its own may be root inside.
POD_SECURITY_VERSION = "v1.36"
# Pod Security *restricted* in every mode: what is refused is also said and recorded.
RESTRICTED = {
    f"pod-security.kubernetes.io/{mode}{suffix}": word
    for mode in ("audit", "enforce", "warn")
    for suffix, word in (("", "restricted"), ("-version", POD_SECURITY_VERSION))
}


def bundle(
    spec: TenantSpec, options: KubernetesOptions, network: tenant_policies.Network | None = None
) -> list[Object]:
    """Return the namespace and all that belongs into it, but secrets."""
    marks = _marks(spec, options)
    return [
        namespace(spec, options),
        *tenant_access.portal(spec.namespace, marks, options),
        *tenant_policies.build(
            spec.namespace, marks, options, network or tenant_policies.Network()
        ),
        *limits(spec.namespace, marks, options.volume_size_gib),
        *tenant_access.build(spec.namespace, marks, spec.kube_users),
    ]


def namespace(spec: TenantSpec, options: KubernetesOptions) -> Object:
    queued = {QUEUE: "kueue"} if options.queue else {}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": spec.namespace,
            "labels": {**_marks(spec, options), **queued, **RESTRICTED},
            "annotations": {"berth.dev/slug": spec.slug},
        },
    }


def secrets(spec: TenantSpec, options: KubernetesOptions) -> dict[str, Object]:
    """Return secrets by name; the content of ``berth-registries`` is read when this is called."""
    marks = _marks(spec, options)
    made = [
        tenant_access.grant(spec.namespace, marks, u, g) for u in spec.kube_users for g in u.grants
    ]
    logins = spec.registries() if spec.registries_version else {}
    made.append(tenant_access.registries(spec.namespace, marks, logins))
    return {m["metadata"]["name"]: m for m in made}


def secret_versions(spec: TenantSpec) -> dict[str, str]:
    """Return name → version of every secret that is wanted, without opening one."""
    found = {tenant_access.grant_name(g): "1" for u in spec.kube_users for g in u.grants}
    # Also without a single sign-in: pods name it, and the kubelet warns when it is missing.
    return {**found, names.REGISTRIES: spec.registries_version or "none"}


def _marks(spec: TenantSpec, options: KubernetesOptions) -> dict[str, str]:
    own = names.labels(
        options.namespace_prefix,
        options.installation,
        uid=spec.uid,
        kind=PLACE,
        project=spec.project,
    )
    given = {**options.extra, **spec.labels}  # an operator's words
    return {**{key: names.label_value(value) for key, value in given.items()}, **own}


MAX_PODS = 5000
MAX_VOLUMES = 2000
_COUNTS = {
    "configmaps": 1000,
    "count/jobs.batch": 1000,
    "count/statefulsets.apps": 5000,
    "persistentvolumeclaims": MAX_VOLUMES,
    "pods": MAX_PODS,
    "secrets": 12000,
    "services": 500,
    "services.loadbalancers": 0,
    "services.nodeports": 0,
}
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def limits(namespace: str, marks: Mapping[str, str], volume_size_gib: int) -> list[Object]:
    storage = binary(MAX_VOLUMES * volume_size_gib, "Gi")
    hard = {name: decimal(count) for name, count in _COUNTS.items()}
    meta = {"namespace": namespace, "labels": dict(marks)}
    return [
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "objects", **meta},
            "spec": {"hard": {**hard, "requests.storage": storage}},
        },
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "defaults", "namespace": namespace, "labels": dict(marks)},
            "spec": {
                "limits": [
                    {
                        "type": "Container",
                        "default": {"cpu": "1", "ephemeral-storage": "10Gi", "memory": "1Gi"},
                        "defaultRequest": {
                            "cpu": "100m",
                            "ephemeral-storage": "1Gi",
                            "memory": "256Mi",
                        },
                    }
                ]
            },
        },
    ]


def decimal(count: int) -> str:
    """Return a count as the API server writes it (5000 is “5k”)."""
    for step, word in ((1_000_000, "M"), (1_000, "k")):
        if count and count % step == 0:
            return f"{count // step}{word}"
    return str(count)


def binary(count: int, unit: str) -> str:
    """Return a size as the API server writes it (2048Gi is “2Ti”)."""
    at = _BINARY.index(unit)
    while count and count % 1024 == 0 and at + 1 < len(_BINARY):
        count, at = count // 1024, at + 1
    return f"{count}{_BINARY[at]}"


_CONTENT = {
    "NetworkPolicy": ("spec",),
    "ResourceQuota": ("spec",),
    "LimitRange": ("spec",),
    "ServiceAccount": ("automountServiceAccountToken",),
    "Role": ("rules",),
    "RoleBinding": ("roleRef", "subjects"),
    "Namespace": (),
}
_LABELS = frozenset(
    {
        f"berth.dev/{name}"
        for name in (
            "managed",
            "instance",
            "installation",
            "uid",
            "kind",
            "project",
            "owner",
            "queue",
        )
    }
    | set(RESTRICTED)
)


def key_of(obj: Mapping[str, Any]) -> str:
    return f"{obj['kind']}/{obj['metadata']['name']}"


def digest(obj: Mapping[str, Any]) -> str:
    """Return the hash of what matters in ``obj``; the same for what was built and what lives."""
    labels = obj["metadata"].get("labels") or {}
    said = {
        "labels": {k: v for k, v in labels.items() if k in _LABELS},
        **{name: _clean(obj.get(name)) for name in _CONTENT[obj["kind"]]},
    }
    return short(json.dumps(said, sort_keys=True, separators=(",", ":")))


def short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digests(objects: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {key_of(o): digest(o) for o in objects}


def drift(expected: Mapping[str, str], live: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return ``Kind/name`` of what is missing or differs. Secrets can't be seen from here."""
    found = digests(o for o in live if o["kind"] in _CONTENT)
    return sorted(
        key
        for key, wanted in expected.items()
        if not key.startswith("Secret/") and found.get(key) != wanted
    )


def _clean(value: Any) -> Any:
    """Leave out what the API server leaves out: nulls and empty lists (never empty objects,
    which mean “everything” in a selector).
    """
    if isinstance(value, Mapping):
        return {k: _clean(v) for k, v in value.items() if v is not None and v != []}
    if isinstance(value, list):
        return [_clean(v) for v in value]
    return value if value != [] else None
