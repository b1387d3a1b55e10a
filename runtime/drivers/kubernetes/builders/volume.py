"""A volume that can only ever be claimed by its own project. Pure."""

from __future__ import annotations

from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.options import KubernetesOptions

FINALIZER = names.DIRECTORY


def volume(
    volume_uid: str, namespace: str, options: KubernetesOptions, *, project: str, owner: str
) -> dict[str, Any]:
    """``directory``: one folder below a fixed base, bound in advance to one claim (C8, C9)."""
    path = f"{options.volume_path.rstrip('/')}/{volume_uid}"
    meta = _meta(volume_uid, options, project=project, owner=owner)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            **meta,
            "annotations": {
                names.DIRECTORY: path,
                names.OWNER_UID: str(options.run_as_user),
            },
            "finalizers": [FINALIZER],
            "name": names.volume(volume_uid),
        },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": f"{options.volume_size_gib}Gi"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "name": names.claim(volume_uid),
                "namespace": namespace,
            },
            "hostPath": {"path": path, "type": "Directory"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "volumeMode": "Filesystem",
        },
    }


def claim(
    volume_uid: str, namespace: str, options: KubernetesOptions, *, project: str, owner: str
) -> dict[str, Any]:
    """Of the volume above, or of the cluster's storage class."""
    directory = options.volume_kind == "directory"
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteMany" if directory else options.volume_access_mode],
        "resources": {"requests": {"storage": f"{options.volume_size_gib}Gi"}},
        "storageClassName": "" if directory else options.storage_class,
    }
    if directory:
        spec["volumeName"] = names.volume(volume_uid)
    meta = _meta(volume_uid, options, project=project, owner=owner)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**meta, "name": names.claim(volume_uid), "namespace": namespace},
        "spec": spec,
    }


def _meta(
    volume_uid: str, options: KubernetesOptions, *, project: str, owner: str
) -> dict[str, Any]:
    labels = names.labels(
        options.namespace_prefix, uid=volume_uid, kind="volume", project=project, owner=owner
    )
    extra = {key: names.label_value(value) for key, value in options.extra.items()}
    return {"labels": {**extra, **labels}}
