"""Reading what the listing script wrote."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import Any

from gate.files.scripts import shown

MOST_BYTES = 1_000_000
MOST_ENTRIES = 5_000
_END = b"//\n"  # no name holds a slash, so only the end of a record looks like this


@dataclass(frozen=True)
class Entry:
    """``path`` is what to send back; ``name`` is for people."""

    name: bytes
    kind: str  # file, folder, link, other
    size: int
    modified: int

    def as_json(self, parts: tuple[bytes, ...]) -> dict[str, Any]:
        return {
            "name": readable(self.name),
            "path": shown((*parts, self.name)),
            "kind": self.kind,
            "size": self.size,
            "modified": self.modified,
        }


def parse(data: bytes) -> tuple[list[Entry], bool]:
    """Return the entries, folders first, and whether there are more than are shown."""
    records = data.split(_END)
    cut = bool(records.pop())  # what follows the last end: half a record, or nothing
    found = [entry for record in records if (entry := _entry(record)) is not None]
    cut = cut or len(found) > MOST_ENTRIES
    found.sort(key=lambda e: (e.kind != "folder", e.name.lower()))
    return found[:MOST_ENTRIES], cut


def _entry(record: bytes) -> Entry | None:
    fields = record.split(b" ", 3)
    if len(fields) != 4 or not fields[3].startswith(b"./"):  # noqa: PLR2004 - as the script writes
        return None
    try:
        mode, size, modified = int(fields[0], 16), int(fields[1]), int(fields[2])
    except ValueError:
        return None
    return Entry(fields[3][2:], _kind(mode), size, modified)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISREG(mode):
        return "file"
    return "link" if stat.S_ISLNK(mode) else "other"


def readable(name: bytes) -> str:
    """Return a name for people: no line break or control character survives."""
    text = name.decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "�" for c in text)
