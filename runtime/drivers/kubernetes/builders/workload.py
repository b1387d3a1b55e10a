"""A workload's own objects: its StatefulSet or Job, and its Secrets. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders.pod import beside, environment, template
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import FINAL_EXITS, WorkloadSpec

# Codes of a program that say by themselves that another try would end the same.
_NO_MORE = tuple(code for code in FINAL_EXITS if code)
_MORE_TRIES = 2


def statefulset(
    spec: WorkloadSpec, options: KubernetesOptions, *, files: bool = False
) -> dict[str, Any]:
    """One replica with a stable name: a bare pod would not come back after a preemption."""
    meta, pod_labels = _head(spec, options)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": meta,
        "spec": {
            "podManagementPolicy": "Parallel",
            "replicas": 1,
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": {names.UID: meta["labels"][names.UID]}},
            "template": template(spec, options, labels=pod_labels, files=files),
        },
    }


def job(spec: WorkloadSpec, options: KubernetesOptions, *, files: bool = False) -> dict[str, Any]:
    """Runs to its end. A lost node or an eviction costs no try; some exit codes end it at once.

    A queue holds it by ``suspend``, which Kueue sets when it is made.
    """
    meta, pod_labels = _head(spec, options)
    disrupted = {"status": "True", "type": "DisruptionTarget"}
    final = {"containerName": names.MAIN, "operator": "In", "values": list(_NO_MORE)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {
            "backoffLimit": _MORE_TRIES,
            "completions": 1,
            "parallelism": 1,
            "podFailurePolicy": {
                "rules": [
                    # First: a program that is moved ends by SIGTERM with a code of its own.
                    {"action": "Ignore", "onPodConditions": [disrupted]},
                    {"action": "FailJob", "onExitCodes": final},
                ]
            },
            "podReplacementPolicy": "Failed",
            "template": template(spec, options, labels=pod_labels, files=files),
        },
    }


def _head(spec: WorkloadSpec, options: KubernetesOptions) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the metadata of what owns the pod, and the pod's labels: only the owner is queued."""
    meta = _meta(spec, options, names.workload(spec.name, spec.uid))
    meta["annotations"] = {names.LAUNCH: str(spec.launch)}
    pod_labels = dict(meta["labels"])
    if options.queue:
        meta["labels"] = {**meta["labels"], names.QUEUE: options.queue}
    return meta, pod_labels


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
