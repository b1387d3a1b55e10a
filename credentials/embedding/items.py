"""What the writers of environments and files are given, and how they write a line.

Pure. A value that could begin another line, section or entry is refused here once more,
whatever let it into the database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from common.ids import slugify

if TYPE_CHECKING:
    from credentials.models import Credential

FOLDER = "{secrets}"  # a driver puts the folder of secret files in its place
MEMORY = "{memory}"  # and here one that the work writes to, in the files that are placed
FOLDER_VARIABLE = "BERTH_SECRETS"
_NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}\Z")
# Names that the tools themselves give a meaning to.
_TAKEN = ("default", "profile", "local")


@dataclass(frozen=True)
class Item:
    """One credential by the name that profiles, remotes and files have."""

    alias: str
    kind: str
    public: Mapping[str, Any]
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)


def aliases(rows: Iterable[Credential]) -> list[str]:
    """Return a short plain name for each, no two alike."""
    used, found = set(_TAKEN), []
    for row in rows:
        plain = slugify(row.name) or f"{row.kind}-{str(row.uid)[:4]}"
        name, number = plain, 1
        while name in used:
            number += 1
            name = f"{plain}-{number}"
        used.add(name)
        found.append(name)
    return found


def one_line(text: object) -> str:
    """Return the text, or raise: it would be more than one value in a file."""
    value = str(text)
    if not value.isprintable() or value != value.strip():
        message = "A value for a file of settings holds a line break or space around it."
        raise ValueError(message)
    return value


def sections(made: Sequence[tuple[str, Mapping[str, object]]]) -> str:
    """Write an INI file. A mapping as a value becomes indented lines, as AWS has them."""
    lines: list[str] = []
    for title, pairs in made:
        if not _NAME.match(title):
            message = "A section's name holds what it may not."
            raise ValueError(message)
        lines += [f"[{title}]", *_pairs(pairs), ""]
    return "\n".join(lines)


def _pairs(pairs: Mapping[str, object]) -> list[str]:
    lines: list[str] = []
    for name, value in pairs.items():
        if isinstance(value, Mapping):
            lines += [f"{name} =", *(f"    {k} = {one_line(v)}" for k, v in value.items())]
        elif value != "":
            lines.append(f"{name} = {one_line(value)}")
    return lines


def yes(value: object) -> str:
    return "true" if value else "false"
