"""Uploads that survive a lost connection, a reload and this process.

An upload is two files in ``.berth/uploads``: what arrived (``<id>.part``) and what it is to become
(``<id>.json``). Its offset is how much of the part counts. At the end it is flushed, checked and
moved to its name in one step, so that no half of a file is ever seen under a real name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import hmac
import os
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from dataplane.files import names, notes
from dataplane.files.changing import take_down
from dataplane.files.names import Refusal
from dataplane.files.notes import UPLOADS, Upload
from dataplane.files.tree import (
    Beat,
    Behind,
    Tree,
    entry_json,
    kind_of,
    land,
    require_room,
    write_all,
)
from dataplane.safepath import Folder

STALE_S = 24 * 3600.0
MOST_OPEN = 200  # of one person
MOST_CLEANED = 20_000  # at once: the tenant can put things there
PIECE = 256 * 1024  # of as many as there are connections
_HASHES_KEPT = 32
_ENDS_KEPT = 256  # of uploads that landed: whoever missed the answer asks again


class Check:
    """A checksum of one piece as it passes."""

    def __init__(self, said: str) -> None:
        kind, _sep, self._wanted = said.partition("=")
        self._kind, self._crc, self._sha = kind, 0, hashlib.sha256()
        if said and kind not in {"sha256", "crc32"}:
            raise Refusal(400, "bad-request", "The checksum is sha256=… or crc32=….")

    def update(self, piece: bytes) -> None:
        if self._kind == "sha256":
            self._sha.update(piece)
        elif self._kind == "crc32":
            self._crc = zlib.crc32(piece, self._crc)

    def fits(self) -> bool:
        found = self._sha.hexdigest() if self._kind == "sha256" else f"{self._crc:08x}"
        return not self._kind or same(found, self._wanted)


def same(found: str, wanted: str) -> bool:
    """Whatever characters a sender made up."""
    return hmac.compare_digest(found.encode(), wanted.lower().encode(errors="replace"))


class Uploads:
    """All uploads of this process; the state is on disk, only running checksums are here."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._sums: OrderedDict[str, tuple[int, Any]] = OrderedDict()
        self._landed: OrderedDict[str, tuple[str, str]] = OrderedDict()  # person, path
        self._lock = threading.Lock()

    # --- begin and find -----------------------------------------------------------------------

    def begin(self, said: dict[str, Any], *, person: str, room: int | None) -> dict[str, Any]:
        """Begin, or go on with the same person's upload of the same file to the same place."""
        made = notes.asked(said, person)
        with self._tree.writable() as top:
            mine = list(notes.of_person(top, person, MOST_OPEN))
            if there := self._begun(top, made, mine):
                return there
            if len(mine) >= MOST_OPEN:
                raise Refusal(429, "too-many", "Too many uploads are unfinished; end some first.")
            _require_free(top, made)
            require_room(top, made.size + notes.pending(top, notes.all_of(top)), room)
            with top.folder(UPLOADS, make=True):
                pass
            notes.write(top, made)
            return self._state(top, made)

    def _begun(self, top: Folder, made: Upload, mine: list[Upload]) -> dict[str, Any] | None:
        """Return how far this very upload is; a note whose part is gone is dropped."""
        for one in mine:
            if (one.path, one.size, one.mark) == (made.path, made.size, made.mark) and one.mark:
                try:
                    return self._state(top, one)
                except Refusal:
                    self._drop(top, one)
        return None

    def mine(self, person: str) -> list[dict[str, Any]]:
        found = []
        with self._tree.opened() as top:
            for one in notes.of_person(top, person, MOST_OPEN):
                with contextlib.suppress(Refusal):  # its part is gone
                    found.append(self._state(top, one))
        return found

    def state(self, upload_id: str, person: str) -> dict[str, Any]:
        with self._tree.opened() as top:
            return self._state(top, notes.one_of(top, upload_id, person))

    def _state(self, top: Folder, one: Upload) -> dict[str, Any]:
        try:
            offset = notes.offset_of(top, one, top.stat(one.part()).st_size)
        except FileNotFoundError:
            raise notes.unknown() from None
        name = names.readable(names.split(names.path_of(one.path))[1])
        said = {"id": one.id, "path": one.path, "name": name, "mark": one.mark}
        return {**said, "size": one.size, "offset": offset}

    # --- contents -----------------------------------------------------------------------------

    def append(
        self, upload_id: str, person: str, *, offset: int, body: BinaryIO, length: int, check: str
    ) -> dict[str, Any]:
        """Take the next piece; with ``check`` (``sha256=…``, ``crc32=…``) all of it or none."""
        with self._tree.writable() as top:
            one = notes.one_of(top, upload_id, person)
            fd = notes.part_of(top, one, os.O_WRONLY)
            try:
                _alone(fd)
                size = os.fstat(fd).st_size
                have = notes.offset_of(top, one, size)
                if offset != have:
                    raise Refusal(409, "offset", "This piece does not follow.", offset=have)
                if have + length > one.size:
                    raise Refusal(413, "too-large", "This is more than was announced.")
                if size > have:
                    os.ftruncate(fd, have)
                whole = check and one.mark  # a piece of what can be gone on with
                notes.be_sure(top, one, have if whole else None)
                self._take(fd, one, have, body, length, check)
                if whole:
                    notes.be_sure(top, one, have + length)
            except OSError as error:
                if error.errno in _FULL:
                    self._drop(top, one)
                raise
            finally:
                os.close(fd)
            return self._state(top, one)

    def _take(self, fd: int, one: Upload, at: int, body: BinaryIO, length: int, check: str) -> None:
        known, running = self._sums.get(one.id, (0, hashlib.sha256()))
        running = running.copy() if known == at else None
        summed, behind = Check(check), Behind(fd, at)
        arrived = 0
        os.lseek(fd, at, os.SEEK_SET)
        try:
            while arrived < length and (piece := body.read(min(PIECE, length - arrived))):
                write_all(fd, piece)
                behind.wrote(len(piece))
                arrived += len(piece)
                summed.update(piece)
                if running is not None:
                    running.update(piece)
        finally:
            whole = arrived == length
            if (not whole or not summed.fits()) and check:
                os.ftruncate(fd, at)
            elif running is not None:
                size = at + arrived
                with self._lock:
                    self._sums[one.id] = (size, running)
                    self._sums.move_to_end(one.id)
                    while len(self._sums) > _HASHES_KEPT:
                        self._sums.popitem(last=False)
        if not whole:
            raise Refusal(400, "short", "Not all of this piece arrived.")
        if not summed.fits():
            raise Refusal(409, "checksum", "This piece was damaged on the way; send it again.")

    # --- end ----------------------------------------------------------------------------------

    def finish(
        self, upload_id: str, person: str, *, sha256: str, conflict: str = ""
    ) -> Iterator[dict[str, Any]]:
        """Check, flush, move to its name. Yields progress, then what it became.

        Asked again it says so again: the answer may have been lost on its way.
        """
        with self._tree.writable() as top:
            known = self._landed.get(upload_id)
            if known is not None and known[0] == person:
                yield _told(top, known[1], sha256)
                return
            one = notes.one_of(top, upload_id, person)
            fd = notes.part_of(top, one, os.O_RDWR)
            try:
                _alone(fd)
                _require_whole(top, fd, one)
                if sha256:
                    yield from self._verify(fd, one, sha256)
                os.fsync(fd)
                landed = land(top, one.part(), names.item_of(one.path), conflict or one.conflict)
                with self._lock:
                    self._landed[one.id] = (one.person, landed)
                    while len(self._landed) > _ENDS_KEPT:
                        self._landed.popitem(last=False)
                if one.modified is not None:  # not before: a part that looks old is removed
                    with contextlib.suppress(OSError):
                        os.utime(fd, (one.modified, one.modified))
            except Refusal as refusal:
                if refusal.code == "checksum":
                    self._drop(top, one)
                raise
            finally:
                os.close(fd)
            self._drop(top, one)
            yield _told(top, landed, sha256)

    def _verify(self, fd: int, one: Upload, wanted: str) -> Iterator[dict[str, Any]]:
        known, running = self._sums.get(one.id, (-1, None))
        if known != one.size or running is None:  # we began anew in between: read it again
            running, beat, at = hashlib.sha256(), Beat(), 0
            while piece := os.pread(fd, PIECE, at):
                running.update(piece)
                at += len(piece)
                if beat():
                    yield {"progress": {"bytes": at, "of": one.size}}
        if not same(running.hexdigest(), wanted):
            raise Refusal(409, "checksum", "What arrived is not what was sent; nothing was kept.")

    def put(
        self, said: dict[str, Any], *, person: str, room: int | None, body: BinaryIO, check: str
    ) -> dict[str, Any]:
        """A small file in one request."""
        made = self.begin({**said, "mark": ""}, person=person, room=room)
        try:
            self.append(made["id"], person, offset=0, body=body, length=made["size"], check=check)
            *_progress, last = self.finish(made["id"], person, sha256="")
        except BaseException:
            with contextlib.suppress(Refusal, OSError):
                self.drop(made["id"], person)
            raise
        return last

    def drop(self, upload_id: str, person: str) -> None:
        with self._tree.writable() as top:
            self._drop(top, notes.one_of(top, upload_id, person))

    def _drop(self, top: Folder, one: Upload) -> None:
        self._sums.pop(one.id, None)
        for path in (one.part(), one.note()):
            with contextlib.suppress(FileNotFoundError):
                top.unlink(path)

    def clean(self) -> int:
        """Remove what nobody went on with for a day; return how many."""
        if self._tree.read_only:
            return 0
        gone, limit = 0, time.time() - STALE_S
        with (
            contextlib.suppress(OSError),
            self._tree.writable() as top,
            top.folder(UPLOADS) as here,
        ):
            for name in [entry.name for entry in islice(here.entries(), MOST_CLEANED)]:
                with contextlib.suppress(OSError):
                    if notes.touched(here, name) < limit:
                        for _one in take_down(here, name):  # also what a copy left when it died
                            pass
                        gone += not name.endswith(".json")
        return gone


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def _require_free(top: Folder, made: Upload) -> None:
    """Say at once what would be refused at the end."""
    path = names.item_of(made.path)
    try:
        found = kind_of(top.stat(path).st_mode)
    except FileNotFoundError:
        return
    if made.conflict == "refuse":
        raise Refusal(409, "exists", "Something of this name is there already.")
    if made.conflict == "replace" and found == "folder":
        raise Refusal(409, "is-folder", "A folder of this name is there.")


def _told(top: Folder, landed: str, sha256: str) -> dict[str, Any]:
    return {"done": entry_json(landed, top.stat(landed)), "sha256": sha256.lower()}


def _require_whole(top: Folder, fd: int, one: Upload) -> None:
    size = os.fstat(fd).st_size
    offset = notes.offset_of(top, one, size)
    if (offset, size) != (one.size, one.size):
        raise Refusal(409, "offset", "Not all of it is here yet.", offset=offset)


def _alone(fd: int) -> None:
    """One writer at a time, also among several of these servers."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refusal(409, "in-use", "Another request is writing this upload.") from None
    except OSError:  # a file system without locks: offsets still keep order
        return
