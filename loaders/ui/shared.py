"""What the pages of loads share."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from common.ui.responses import to_yaml
from credentials.selectors import credentials_named
from loaders.choices import Mode
from loaders.kind import LOAD
from loaders.services.resolve import KINDS
from volumes.selectors import volume_named
from work.services.manifest import manifest_wrap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from loaders.models import Load

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


def named(who: Principal, row: Load) -> dict[str, str]:
    """Return credential and volume by what means them alone: their names, else their ids."""
    said: dict[str, str] = {}
    if row.credential is not None:
        (said["credential"],) = credentials_named(who, row.project, [row.credential], KINDS)
    if row.volume_id is not None:
        said["volume"] = volume_named(who, row.project, row.volume)
    return said


def as_yaml(name: str, project: str, row: Load, rows: Mapping[str, str]) -> str:
    """``rows``: as they are ``named``."""
    document = manifest_wrap(LOAD, name, project, LOAD.table.read(row, private=True))
    document["spec"] |= rows
    return to_yaml(document)


def as_command(name: str, project: str, row: Load, rows: Mapping[str, str]) -> str:
    """Return the ``berth`` command that makes the same load; "" where it would be too long."""
    said = {**LOAD.table.read(row, private=True), **rows}
    if len(said["objects"] or ()) > _KEYS:
        return ""
    words = ["berth", "loads", "create", str(said["url"]), "--project", project, "--name", name]
    if row.is_export:
        words.append("--export")
    if row.mode != Mode.COPY:
        words += ["--mode", row.mode]
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
