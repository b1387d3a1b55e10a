"""What names an object of a cluster: where it lies, whose it is, which version it has. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.drivers.kubernetes import names

Key = tuple[str, str]  # namespace, name


def key_of(obj: Mapping[str, Any]) -> Key:
    return (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def owner_key(pod: Mapping[str, Any]) -> Key:
    """Return the key of the StatefulSet or Job that a pod belongs to."""
    meta = pod["metadata"]
    job = (meta.get("labels") or {}).get(names.JOB)
    return (meta.get("namespace", ""), job or set_name(meta["name"]))


def set_name(pod_name: str) -> str:
    return pod_name.removesuffix("-0")


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return the uid of the row that it stands for, "" when it is nobody's."""
    return str(((obj.get("metadata") or {}).get("labels") or {}).get(names.UID, ""))


def version_of(obj: Mapping[str, Any] | None) -> int:
    text = str(((obj or {}).get("metadata") or {}).get("resourceVersion", ""))
    return int(text) if text.isdigit() else 0
