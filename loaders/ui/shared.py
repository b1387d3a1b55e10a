"""What the pages of loads share."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any

import yaml

from loaders.services import manifest_wrap, public_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loaders.spec import Spec

_KEYS = 10  # objects that a command names; the document names any number
_FLAGS = {
    "credential": "--credential",
    "volume": "--volume",
    "folder": "--folder",
    "bandwidth_bytes_s": "--bandwidth",
    "version": "--version",
    "endpoint": "--endpoint",
    "region": "--region",
    "schedule": "--schedule",
    "time_zone": "--time-zone",
}


def to_yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)


def as_yaml(name: str, project: str, spec: Spec) -> str:
    return to_yaml(manifest_wrap(name, project, spec))


def as_command(name: str, project: str, spec: Spec) -> str:
    """Return the ``berth`` command that makes the same load; "" where it would be too long."""
    said = public_fields(spec)
    if len(said["objects"] or ()) > _KEYS:
        return ""
    words = ["berth", "loads", "create", str(said["url"]), "--project", project, "--name", name]
    if spec.is_export:
        words.append("--export")
    if spec.mode != "copy":
        words += ["--mode", str(spec.mode.value)]
    for field, flag in _FLAGS.items():
        if said[field]:
            words += [flag, str(said[field])]
    for field in ("include", "exclude"):
        words += [part for pattern in said[field] for part in (f"--{field}", pattern)]
    words += [part for key in said["objects"] or () for part in ("--object", key)]
    if size := said.get("cache_size_mib"):
        words += ["--cache-size", f"{size}M"]
    words += [flag for field, flag in _SWITCHES.items() if said[field]]
    return " ".join(quote(word) for word in words)


_SWITCHES = {"delete_extra": "--delete-extra", "path_style": "--path-style"}
