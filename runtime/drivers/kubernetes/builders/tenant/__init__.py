"""The isolation bundle of one project: every object that keeps its namespace to itself.

Pure. All fields that the API server would fill in are written out, and quantities are in their
canonical form, so that a live object that nobody touched is equal to what is built here.
"""

from __future__ import annotations

from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders.tenant import access, limits, policies
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import TenantSpec

Object = dict[str, Any]

BUNDLE = "berth.dev/bundle"  # annotation of the namespace: what belongs here, with its hash
MARK = "berth.dev/made-from"  # annotation: ``TenantSpec.mark``
QUEUE = "berth.dev/queue"
PLACE = "place"
# Explicit, so that an upgrade of the cluster changes nothing by itself. A server that is older
# takes its newest. From 1.35 on a pod in a user namespace of its own may be root inside.
POD_SECURITY_VERSION = "v1.36"


def bundle(
    spec: TenantSpec, options: KubernetesOptions, network: policies.Network | None = None
) -> list[Object]:
    """Return the namespace and all that belongs into it, but secrets."""
    marks = _marks(spec, options)
    return [
        namespace(spec, options),
        *access.portal(spec.namespace, marks, options),
        *policies.build(spec.namespace, marks, options, network or policies.Network()),
        *limits.build(spec.namespace, marks, options.volume_size_gib),
        *access.build(spec.namespace, marks, spec.kube_users),
    ]


def namespace(spec: TenantSpec, options: KubernetesOptions) -> Object:
    """Pod Security *restricted* in every mode: what is refused is also said and recorded."""
    security: dict[str, str] = {}
    for mode in ("audit", "enforce", "warn"):
        security[f"pod-security.kubernetes.io/{mode}"] = "restricted"
        security[f"pod-security.kubernetes.io/{mode}-version"] = POD_SECURITY_VERSION
    queued = {QUEUE: "kueue"} if options.queue else {}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": spec.namespace,
            "labels": {**_marks(spec, options), **queued, **security},
            "annotations": {"berth.dev/slug": spec.slug},
        },
    }


def secrets(spec: TenantSpec, options: KubernetesOptions) -> dict[str, Object]:
    """Return secrets by name; the content of ``berth-registries`` is read when this is called."""
    marks = _marks(spec, options)
    made = [access.grant(spec.namespace, marks, u, g) for u in spec.kube_users for g in u.grants]
    logins = spec.registries() if spec.registries_version else {}
    made.append(access.registries(spec.namespace, marks, logins))
    return {m["metadata"]["name"]: m for m in made}


def secret_versions(spec: TenantSpec) -> dict[str, str]:
    """Return name → version of every secret that is wanted, without opening one."""
    found = {access.grant_name(g): "1" for u in spec.kube_users for g in u.grants}
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
