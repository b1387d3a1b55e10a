"""What is mounted into a workload, on every driver: names of volumes, secret files.

Volumes of data have plain names, each once.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from runtime.protocol import InvalidSpec
from runtime.spec import Mount

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


PLACEHOLDER = "{secrets}"
MEMORY = "{memory}"
# A Secret of a cluster holds 1 MiB and the environment stands in it too; the same everywhere.
MOST_BYTES = 900 * 1024
_NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9._-]{1,100}")


def checked(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files as they are, or say which can't be written."""
    total = 0
    for name, text in files.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidSpec("A secret file is a name and a text.", reason="invalid-spec")
        if not _NAME.fullmatch(name) or ".." in name:
            raise InvalidSpec(
                f"A secret file can't be called {name[:40]!r}.", reason="invalid-spec"
            )
        total += len(text.encode())
    if total > MOST_BYTES:
        raise InvalidSpec(
            f"The secret files have {total:,} bytes together; {MOST_BYTES:,} is the most.",
            reason="invalid-spec",
        )
    return dict(files)


def placed(text: str, folder: str) -> str:
    """Put the folder of the secret files where ``{secrets}`` stands."""
    return text.replace(PLACEHOLDER, folder)


def filled(
    files: Mapping[str, str], named: Collection[str], *, folder: str, memory: str
) -> dict[str, str]:
    """Put both folders into the texts of those ``named``; what people stored stays as it is."""
    return {
        name: placed(text, folder).replace(MEMORY, memory) if name in named else text
        for name, text in files.items()
    }
