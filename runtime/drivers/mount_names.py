"""What volumes of data are called in a workload: plain names, each once, on every driver."""

import re
from collections.abc import Iterable

from runtime.protocol import InvalidSpec, Mount

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


def is_plain(name: str) -> bool:
    """Whether it is safe as one part of a path."""
    return bool(PLAIN.fullmatch(name)) and ".." not in name


def check(mounts: Iterable[Mount]) -> None:
    """Refuse what would lead out of the folder for volumes, or hide one by another (C8)."""
    seen: set[str] = set()
    for mount in mounts:
        if mount.role == "home":
            continue
        if mount.role != "data" or not is_plain(mount.name):
            raise InvalidSpec(
                f"A volume can't be mounted as {mount.name[:40]!r}.", reason="invalid-spec"
            )
        if mount.name in seen:
            raise InvalidSpec(f"Two volumes are called {mount.name}.", reason="invalid-spec")
        seen.add(mount.name)
