"""How what is complete gets its name: what uploads, copies and moves have in common."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from dataplane.files import names
from dataplane.files.refusals import Refusal
from dataplane.files.tree import kind_of, place
from dataplane.safepath import Folder

POLICIES = ("refuse", "replace", "keep-both")


def land(top: Folder, temporary: str, path: str, conflict: str) -> str:
    """Move what is complete to its name; folders on the way are made. Return where it is."""
    folder, _name = names.split(path)
    with top.folder(folder, make=True):
        pass
    if conflict == "replace":
        with contextlib.suppress(FileNotFoundError):
            if kind_of(top.stat(path).st_mode) == "folder":
                raise Refusal(409, "is-folder", "A folder of this name is there.")
        top.rename(temporary, path)
        return path
    return place(path, conflict, lambda to: top.rename(temporary, to, replace=False))


def policy_of(said: dict[str, Any]) -> str:
    conflict = said.get("conflict", "refuse")
    if conflict not in POLICIES:
        raise Refusal(400, "bad-request", f"conflict is one of: {', '.join(POLICIES)}.")
    return str(conflict)


def require_room(top: Folder, needed: int, room: int | None) -> None:
    """Refuse what does not fit: into the file system, or into what the limit leaves."""
    about = os.fstatvfs(top.fd)
    free = about.f_bavail * about.f_frsize
    if room is not None and needed > room:
        raise Refusal(507, "quota", "The volume's limit leaves no room for this.", room=room)
    if needed > free:
        raise Refusal(507, "disk-full", "There is not enough room on the volume.", room=free)
