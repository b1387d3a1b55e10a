"""What a workload has whatever its shape: the head of its objects, and its Secrets. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders.pod import beside, environment
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import WorkloadSpec


def head(spec: WorkloadSpec, options: KubernetesOptions) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the metadata of what owns the pods, and the pods' labels: only the owner is queued."""
    meta = own(spec, options)
    meta["annotations"] = {names.LAUNCH: str(spec.launch)}
    pod_labels = dict(meta["labels"])
    waits = {names.QUEUE: spec.queue or options.queue, names.PRIORITY: spec.priority}
    meta["labels"] = {**meta["labels"], **{name: value for name, value in waits.items() if value}}
    return meta, pod_labels


def own(spec: WorkloadSpec, options: KubernetesOptions) -> dict[str, Any]:
    """Return the metadata of an object that has the workload's own name."""
    return _meta(spec, options, names.workload(spec.name, spec.uid))


def secrets(
    spec: WorkloadSpec,
    options: KubernetesOptions,
    secret_env: Mapping[str, str],
    files: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The main container's environment, its files, and one Secret for each helper beside it.

    Files have one of their own: all keys of the first one become variables.
    """
    name = names.workload(spec.name, spec.uid)
    found = [secret(_meta(spec, options, name), environment(spec, secret_env))]
    if files is not None:
        found.append(secret(_meta(spec, options, names.files_secret(name)), files))
    for sidecar in spec.sidecars:
        meta = _meta(spec, options, names.sidecar_secret(name, sidecar.name))
        found.append(secret(meta, beside(sidecar)))
    return found


def secret(meta: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """``data`` and not ``stringData``: what is left out of a later apply goes away."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": dict(meta),
        "type": "Opaque",
        "data": {k: base64.b64encode(v.encode()).decode() for k, v in sorted(values.items())},
    }


def _meta(spec: WorkloadSpec, options: KubernetesOptions, name: str) -> dict[str, Any]:
    labels = names.labels(
        options.namespace_prefix,
        options.installation,
        uid=spec.uid,
        kind=spec.kind,
        project=spec.project,
        owner=spec.owner,
    )
    extra = {key: names.label_value(value) for key, value in options.extra.items()}
    return {"labels": {**extra, **labels}, "name": name, "namespace": spec.namespace}
