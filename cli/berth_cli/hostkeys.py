"""Whose SSH server it is: the portal says its key, and ssh believes no other."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from berth_cli import config

_NAME = "known_hosts"
_DEFAULT_PORT = "22"


def trusting(there: dict[str, Any]) -> list[str]:
    """Return options for ssh that let it believe the key that the portal named, and no other.

    None where the portal could not name it, or nothing can be kept here: then ssh asks, as it does
    everywhere.
    """
    key = there.get("host_key")
    if not key:
        return []
    try:
        file = _kept(_named(str(there["host"]), str(there["port"])), str(key))
    except OSError:
        return []
    # ssh reads a list of files with %-words in it
    path = str(file).replace("%", "%%")
    return ["-o", "StrictHostKeyChecking=yes", "-o", f'UserKnownHostsFile="{path}"']


def _named(host: str, port: str) -> str:
    return host if port == _DEFAULT_PORT else f"[{host}]:{port}"


def _kept(name: str, key: str) -> Path:
    """Keep the key of this host as the portal says it now; a line that is right stays."""
    file = config.path().with_name(_NAME)
    line = " ".join([name, *key.split()[:2]])
    # a line that is no text is nobody's key: ssh passes it over
    before = file.read_text(errors="replace").splitlines() if file.exists() else []
    others = [one for one in before if one.split(" ", 1)[0] != name]
    after = [*others, line]
    if set(after) != set(before):
        _write(file, "\n".join(after) + "\n")
    return file


def _write(file: Path, text: str) -> None:
    """Write at once as a whole: another ssh may be reading it."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, made = tempfile.mkstemp(dir=file.parent, prefix=f".{_NAME}-")
    with os.fdopen(handle, "w") as out:
        out.write(text)
    Path(made).replace(file)
