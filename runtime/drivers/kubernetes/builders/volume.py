"""A volume that can only ever be claimed by its own project. Pure.

What a volume lies on is chosen by the platform: a folder below a fixed base, the folder of its
uid on an NFS export, or a storage class. No path that a person wrote reaches a mount (C8).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders.tenant import binary
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.mounts import is_plain
from runtime.protocol import InvalidSpec
from runtime.spec import Backing

FINALIZER = names.DIRECTORY
DIRECTORY, NFS, NFS_CSI, CLASS = "directory", "nfs", "nfs-csi", "storage-class"
OUR_OWN = (DIRECTORY, NFS, NFS_CSI)  # with a PersistentVolume that we make
ON_NFS = (NFS, NFS_CSI)
NFS_DRIVER = "nfs.csi.k8s.io"
_NFS_OPTIONS = ("nfsvers=4.1", "hard", "nosuid", "nodev")
SNAPSHOTS = "snapshot.storage.k8s.io"
_FROM_CLUSTER = Backing()


def resolved(backing: Backing | None, options: KubernetesOptions) -> Backing:
    """Return the backing with its kind; one without is the cluster's own default."""
    found = backing or _FROM_CLUSTER
    if found.kind == DIRECTORY:
        return replace(found, options={"path": options.volume_path, **found.options})
    if found.kind == CLASS:
        mode = {"access_mode": options.volume_access_mode}
        return replace(found, options={**mode, **found.options})
    if found.kind:
        return found
    if options.volume_kind == "directory":
        given = {"path": options.volume_path}
        return replace(found, kind=DIRECTORY, options=given)
    if options.volume_kind == "nfs":
        given = {"server": options.nfs_server, "export": options.nfs_export}
        return replace(found, kind=NFS, options=given)
    given = {"storage_class": options.storage_class, "access_mode": options.volume_access_mode}
    return replace(found, kind=CLASS, options=given)


def size_of(backing: Backing, options: KubernetesOptions) -> str:
    """Asked of a storage class; elsewhere only what is shown, and never enforced."""
    if backing.size_mib is None:
        return binary(options.volume_size_gib, "Gi")
    return binary(max(1, backing.size_mib), "Mi")


def volume(
    volume_uid: str,
    namespace: str,
    options: KubernetesOptions,
    *,
    project: str,
    owner: str,
    backing: Backing | None = None,
) -> dict[str, Any]:
    """Bound in advance to one claim, and kept when that goes (C8, C9)."""
    on = resolved(backing, options)
    notes, finalizers, source = _source(volume_uid, on, options)
    meta: dict[str, Any] = {
        **_meta(volume_uid, options, project=project, owner=owner),
        "annotations": {names.BACKING: on.kind, **notes},
        "name": names.volume(volume_uid),
    }
    if finalizers:
        meta["finalizers"] = finalizers
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": meta,
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": size_of(on, options)},
            "claimRef": claim_of(volume_uid, namespace),
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "volumeMode": "Filesystem",
            **source,
        },
    }


def claim_of(volume_uid: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "name": names.claim(volume_uid),
        "namespace": namespace,
    }


def _source(
    volume_uid: str, on: Backing, options: KubernetesOptions
) -> tuple[dict[str, str], list[str], dict[str, Any]]:
    """Return annotations, finalizers and the fields of the spec that say where it lies."""
    if on.kind == DIRECTORY:
        path = f"{on.options['path'].rstrip('/')}/{plain(volume_uid)}"
        notes = {names.DIRECTORY: path, names.OWNER_UID: str(options.run_as_user)}
        return notes, [FINALIZER], {"hostPath": {"path": path, "type": "Directory"}}
    notes = {names.EXPORT: f"{on.options['server']}:{on.options['export']}"}
    return notes, [], nfs_source(on, plain(volume_uid))


def nfs_source(on: Backing, folder: str) -> dict[str, Any]:
    """Return how the node mounts one folder of an export, "" for the export itself."""
    server, export = on.options["server"], on.options["export"]
    mount = {"mountOptions": list(_NFS_OPTIONS)}
    if on.kind == NFS:
        path = f"{export.rstrip('/')}/{folder}" if folder else export
        return {**mount, "nfs": {"path": path, "server": server}}
    attributes = {"server": server, "share": export}
    if folder:
        attributes["subDir"] = folder
    handle = "#".join((server, export.strip("/"), folder or "top"))
    driver = on.options.get("driver") or NFS_DRIVER
    return {
        **mount,
        "csi": {"driver": driver, "volumeAttributes": attributes, "volumeHandle": handle},
    }


def claim(
    volume_uid: str,
    namespace: str,
    options: KubernetesOptions,
    *,
    project: str,
    owner: str,
    backing: Backing | None = None,
    snapshot: str = "",
) -> dict[str, Any]:
    """Of the volume above, or of a storage class; there it may begin as a ``snapshot``'s copy."""
    on = resolved(backing, options)
    ours = on.kind in OUR_OWN
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteMany" if ours else on.options["access_mode"]],
        "resources": {"requests": {"storage": size_of(on, options)}},
    }
    # left out, the cluster takes its default class; "" would be none at all
    if ours or on.options.get("storage_class"):
        spec["storageClassName"] = "" if ours else on.options["storage_class"]
    meta = _meta(volume_uid, options, project=project, owner=owner)
    notes = {names.BACKING: on.kind}
    if ours:
        spec["volumeName"] = names.volume(volume_uid)
    if snapshot:
        notes[names.RESTORED] = snapshot
        spec["dataSource"] = {
            "apiGroup": SNAPSHOTS,
            "kind": "VolumeSnapshot",
            "name": names.snapshot(snapshot),
        }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            **meta,
            "annotations": notes,
            "name": names.claim(volume_uid),
            "namespace": namespace,
        },
        "spec": spec,
    }


def volume_snapshot(
    snapshot_uid: str, volume_uid: str, claim: Mapping[str, Any], *, snapshot_class: str
) -> dict[str, Any]:
    """Beside the claim, with the same marks."""
    meta = claim["metadata"]
    return {
        "apiVersion": f"{SNAPSHOTS}/v1",
        "kind": "VolumeSnapshot",
        "metadata": {
            "labels": {
                **(meta.get("labels") or {}),
                names.UID: names.label_value(snapshot_uid),
                names.KIND: "snapshot",
            },
            "name": names.snapshot(snapshot_uid),
            "namespace": meta["namespace"],
        },
        "spec": {
            "source": {"persistentVolumeClaimName": names.claim(volume_uid)},
            "volumeSnapshotClassName": snapshot_class,
        },
    }


def plain(volume_uid: str) -> str:
    """Return it as one part of a path, or refuse."""
    if not is_plain(volume_uid):
        raise InvalidSpec(f"{volume_uid[:40]!r} can't be the folder of a volume.")
    return volume_uid


def _meta(
    volume_uid: str, options: KubernetesOptions, *, project: str, owner: str
) -> dict[str, Any]:
    labels = names.labels(
        options.namespace_prefix,
        options.installation,
        uid=volume_uid,
        kind="volume",
        project=project,
        owner=owner,
    )
    extra = {key: names.label_value(value) for key, value in options.extra.items()}
    return {"labels": {**extra, **labels}}
