"""What a volume may lie on: a closed list of kinds, each with a closed list of options. Pure.

Operators write these, never tenants; what reaches a driver was checked here (C8).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _

from clusters.options import ACCESS_MODES, DIRECTORY, NFS, ClusterOptions
from common.errors import wrong
from volumes.choices import BackingKind

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
