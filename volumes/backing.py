"""What a volume lies on, where that is, and how it is given to a workload."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from clusters.models import Cluster
from clusters.options import ACCESS_MODES, DIRECTORY, NFS, ClusterOptions
from clusters.where import image_cluster, names_on, namespace_of
from common import disk
from common.errors import wrong
from runtime.spec import Backing, Mount
from volumes.choices import BackingKind
from volumes.models import Volume

_PATH = re.compile(r"\A/[A-Za-z0-9._/-]{1,200}\Z")
_HOST = re.compile(r"\A(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?\Z")
_NAME = re.compile(r"\A[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")
NFS_DRIVER = "nfs.csi.k8s.io"
MAX_TEXT = 300


def _is_path(value: str) -> bool:
    return bool(_PATH.match(value)) and not {".", ".."} & set(value.split("/"))


def _is_export(value: str) -> bool:
    return value == "/" or _is_path(value)


Check = Callable[[str], bool]
# kind → option → (required, what it is when not given, check)
OPTIONS: Mapping[str, Mapping[str, tuple[bool, str, Check]]] = {
    BackingKind.DIRECTORY: {"path": (False, "", _is_path)},
    BackingKind.NFS: {
        "server": (True, "", lambda v: bool(_HOST.match(v))),
        "export": (True, "", _is_export),
    },
    BackingKind.NFS_CSI: {
        "server": (True, "", lambda v: bool(_HOST.match(v))),
        "export": (True, "", _is_export),
        "driver": (False, NFS_DRIVER, lambda v: bool(_NAME.match(v))),
    },
    BackingKind.STORAGE_CLASS: {
        "storage_class": (False, "", lambda v: bool(_NAME.match(v))),
        "access_mode": (False, ACCESS_MODES[0], lambda v: v in ACCESS_MODES),
        "snapshot_class": (False, "", lambda v: bool(_NAME.match(v))),
    },
}


def clean_options(kind: str, given: Any) -> dict[str, str]:
    """Return the checked options of a kind, or raise Invalid that names what is wrong."""
    known = OPTIONS.get(kind)
    if known is None:
        raise wrong("backing_kind", _("Choose one of: %(names)s.") % {"names": ", ".join(OPTIONS)})
    if not isinstance(given, Mapping) or any(not isinstance(v, str) for v in given.values()):
        raise wrong("options", _("Options are names and texts."))
    if strange := sorted(set(map(str, given)) - set(known)):
        names = {"name": strange[0][:60], "names": ", ".join(known)}
        raise wrong(
            "options", _("There is no option “%(name)s” here; there are: %(names)s.") % names
        )
    clean: dict[str, str] = {}
    for name, (required, otherwise, fits) in known.items():
        value = str(given.get(name, "")).strip() or otherwise
        if not value and not required:
            continue
        if len(value) > MAX_TEXT or not fits(value):
            raise wrong("options", _("“%(name)s” is missing or not valid.") % {"name": name})
        clean[name] = value
    return clean


def derived_of(options: ClusterOptions, *, one_machine: bool) -> tuple[str, dict[str, str]]:
    """Return kind and options that say the same as a cluster's own settings."""
    if one_machine:
        return BackingKind.DIRECTORY, {}
    if options.volume_kind == DIRECTORY:
        return BackingKind.DIRECTORY, {"path": options.volume_path}
    if options.volume_kind == NFS:
        return BackingKind.NFS, {"server": options.nfs_server, "export": options.nfs_export}
    named = {"storage_class": options.storage_class} if options.storage_class else {}
    return BackingKind.STORAGE_CLASS, {**named, "access_mode": options.volume_access_mode}


def can_shrink(kind: str) -> bool:
    """Whether a smaller size can be asked for: a claim of a storage class only grows."""
    return kind != BackingKind.STORAGE_CLASS


def backing_of(volume: Volume) -> Backing:
    """Return what it lies on; it was laid down when the volume was made."""
    return Backing(
        kind=volume.backing_kind,
        options=dict(volume.backing_options),
        size_mib=volume.size_limit_mib,
    )


def owner_of(volume: Volume) -> str:
    """Return the uid of whose it is, "" when the project's members share it."""
    return str(volume.owner.uid) if volume.owner else ""


def mount_of(volume: Volume, *, read_only: bool = False, role: str = "data") -> Mount:
    return Mount(
        volume_uid=str(volume.uid),
        role=role,
        read_only=read_only,
        name=volume.mount_name,
        owner=owner_of(volume),
        backing=backing_of(volume),
    )


def lies_here(uid: str) -> bool:
    """Whether what is written into the volume takes room on the portal's own disk."""
    keys = Volume.objects.filter(uid=uid).values("cluster_key")
    elsewhere = Cluster.objects.running_images().filter(key__in=keys)
    return not elsewhere.exists() and disk.holds(settings.BERTH_VOLUMES_DIR)


def largest_here(count: int = 5) -> list[Volume]:
    """Return what holds most of the portal's own disk, as last measured; the largest first."""
    if not disk.holds(settings.BERTH_VOLUMES_DIR):
        return []
    here = Cluster.objects.one_machine().values("key")
    rows = Volume.objects.filter(deleted_at__isnull=True, cluster_key__in=here, used_bytes__gt=0)
    return list(rows.select_related("project", "owner").order_by("-used_bytes")[:count])


def lookup(uid: str) -> Mapping[str, str] | None:
    row = Volume.objects.select_related("project").filter(uid=uid).first()
    if row is None:
        return None
    cluster = image_cluster(row.cluster_key)
    if cluster is None:
        return None
    return {"namespace": namespace_of(row.project, cluster), "name": names_on(cluster).claim(uid)}
