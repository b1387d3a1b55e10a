"""Secret files of a workload, as every driver takes them: plain names, one small bundle."""

import re
from collections.abc import Collection, Mapping

from runtime.protocol import InvalidSpec

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
