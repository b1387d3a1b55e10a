"""The notes of uploads: what each is to become, and how much of it is sure.

They lie where the tenant can write, so nothing in them is believed unchecked.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from dataplane.files import names
from dataplane.files.names import Refusal
from dataplane.files.tree import policy_of
from dataplane.safepath import OWN, Folder

UPLOADS = f"{OWN}/uploads"
UNDER_WAY_S = 600.0  # nobody went on with it for longer: it may never need the rest of its room
MOST_SEEN = 20_000  # files of uploads that are looked at
_ID = re.compile(r"[0-9a-f]{32}")
_FAR = 2**36  # seconds: no file is of a later year


@dataclass(frozen=True)
class Upload:
    """What an upload is to become. ``mark`` tells the sender's file from another of that name."""

    id: str
    path: str  # as it travels
    size: int
    conflict: str
    person: str
    mark: str
    modified: float | None

    def part(self) -> str:
        return f"{UPLOADS}/{self.id}.part"

    def note(self) -> str:
        return f"{UPLOADS}/{self.id}.json"


def asked(said: dict[str, Any], person: str) -> Upload:
    """Return what is asked for, or refuse it."""
    size, modified = said.get("size"), said.get("modified")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise Refusal(400, "bad-request", "Say the size in bytes.")
    if not isinstance(modified, int | float) or not 0 <= modified < _FAR:
        modified = None
    path = names.item_of(str(said.get("path", "")))
    conflict = policy_of(said)
    mark = str(said.get("mark", ""))[:200]
    return Upload(secrets.token_hex(16), names.shown(path), size, conflict, person, mark, modified)


def all_of(top: Folder) -> Iterator[Upload]:
    """Yield one at a time, of the first ``MOST_SEEN`` things: the tenant can put more there."""
    with contextlib.suppress(FileNotFoundError):
        for entry in islice(top.entries(UPLOADS), MOST_SEEN):
            if entry.name.endswith(".json"):
                with contextlib.suppress(Refusal, OSError):
                    yield _read(top, entry.name.removesuffix(".json"))


def of_person(top: Folder, person: str, most: int) -> Iterator[Upload]:
    return islice((one for one in all_of(top) if one.person == person), most)


def one_of(top: Folder, upload_id: str, person: str) -> Upload:
    if not _ID.fullmatch(upload_id):
        raise unknown()
    try:
        one = _read(top, upload_id)
    except OSError:
        raise unknown() from None
    if one.person != person:
        raise unknown()
    return one


def _read(top: Folder, upload_id: str) -> Upload:
    try:
        said = json.loads(_lines(top, f"{UPLOADS}/{upload_id}.json")[0])
        made = asked(said, str(said["person"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise unknown() from None
    return Upload(**{**asdict(made), "id": upload_id})


def unknown() -> Refusal:
    return Refusal(404, "no-upload", "This upload is not known any more; begin again.")


def touched(here: Folder, name: str) -> float:
    """Return when somebody went on with it last: a note is as fresh as its part."""
    at = here.stat(name).st_mtime
    if name.endswith(".json"):
        with contextlib.suppress(FileNotFoundError):
            at = max(at, here.stat(f"{name.removesuffix('.json')}.part").st_mtime)
    return at


def pending(top: Folder, under_way: Iterable[Upload]) -> int:
    """What uploads will still take that somebody goes on with."""
    waiting, since = 0, time.time() - UNDER_WAY_S
    for one in under_way:
        with contextlib.suppress(OSError):
            there = top.stat(one.part())
            if there.st_mtime > since:
                waiting += max(0, one.size - there.st_size)
    return waiting


def write(top: Folder, one: Upload) -> None:
    """Make its two files; nothing has arrived."""
    fd = top.open(one.note(), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(fd, "wb") as file:
        file.write(json.dumps(asdict(one)).encode() + b"\n" + _number(None))
    os.close(top.open(one.part(), os.O_WRONLY | os.O_CREAT | os.O_EXCL))


def part_of(top: Folder, one: Upload, flags: int) -> int:
    """Open what arrived. Something else that was put in its place is not waited for."""
    try:
        fd = top.open(one.part(), flags | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENXIO}:
            raise unknown() from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise unknown()
    return fd


# --- what is sure --------------------------------------------------------------------------------
# A piece with a checksum counts when all of it was checked, also when this process is killed in
# the middle of one: the second line of the note says how far that is, or nothing.


def offset_of(top: Folder, one: Upload, size: int) -> int:
    """Return how much of a part of ``size`` counts."""
    with contextlib.suppress(OSError):
        lines = _lines(top, one.note())
        if len(lines) > 1 and lines[1].isdigit():
            return min(size, int(lines[1]))
    return size


def be_sure(top: Folder, one: Upload, offset: int | None) -> None:
    """Note how much counts; None: all that is there."""
    place = len(_lines(top, one.note())[0]) + 1
    fd = top.open(one.note(), os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.pwrite(fd, _number(offset), place)
    finally:
        os.close(fd)


def _lines(top: Folder, path: str) -> list[bytes]:
    fd, _info = top.open_file(path)
    with os.fdopen(fd, "rb") as file:
        return file.read(16 * 1024).split(b"\n", 1)


def _number(offset: int | None) -> bytes:
    return b" " * 20 if offset is None else b"%020d" % offset
