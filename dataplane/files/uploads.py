"""Uploads that survive a lost connection, a reload and this process.

An upload is two files in ``.berth/uploads``: what arrived (``<id>.part``) and what it is to become
(``<id>.json``). Its offset is the size of the part. At the end it is flushed, checked and moved to
its name in one step, so that no half of a file is ever seen under a real name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from dataplane.files import names
from dataplane.files.landing import land, policy_of, require_room
from dataplane.files.refusals import Refusal
from dataplane.files.removing import take_down
from dataplane.files.tree import Beat, Tree, entry_json, kind_of
from dataplane.own import OWN
from dataplane.safepath import Folder

UPLOADS = f"{OWN}/uploads"
STALE_S = 24 * 3600.0
MOST_OPEN = 200  # of one person
PIECE = 1024 * 1024
_ID = re.compile(r"[0-9a-f]{32}")
_HASHES_KEPT = 32
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


class Uploads:
    """All uploads of this process; the state is on disk, only running checksums are here."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._sums: OrderedDict[str, tuple[int, Any]] = OrderedDict()
        self._lock = threading.Lock()

    # --- begin and find -----------------------------------------------------------------------

    def begin(self, said: dict[str, Any], *, person: str, room: int | None) -> dict[str, Any]:
        """Begin, or go on with the same person's upload of the same file to the same place."""
        made = _asked(said, person)
        with self._tree.writable() as top:
            under_way = _all(top)
            mine = [one for one in under_way if one.person == person]
            if there := self._begun(top, made, mine):
                return there
            if len(mine) >= MOST_OPEN:
                raise Refusal(429, "too-many", "Too many uploads are unfinished; end some first.")
            _require_free(top, made)
            require_room(top, made.size + _pending(top, under_way), room)
            with top.folder(UPLOADS, make=True):
                pass
            _write(top, made.note(), json.dumps(asdict(made)).encode())
            os.close(top.open(made.part(), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
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
            for one in _all(top):
                if one.person == person:
                    with contextlib.suppress(Refusal):  # its part is gone
                        found.append(self._state(top, one))
        return found

    def state(self, upload_id: str, person: str) -> dict[str, Any]:
        with self._tree.opened() as top:
            return self._state(top, _one(top, upload_id, person))

    def _state(self, top: Folder, one: Upload) -> dict[str, Any]:
        try:
            offset = top.stat(one.part()).st_size
        except FileNotFoundError:
            raise _unknown() from None
        name = names.readable(names.split(names.path_of(one.path))[1])
        said = {"id": one.id, "path": one.path, "name": name, "mark": one.mark}
        return {**said, "size": one.size, "offset": offset}

    # --- contents -----------------------------------------------------------------------------

    def append(
        self, upload_id: str, person: str, *, offset: int, body: BinaryIO, length: int, check: str
    ) -> dict[str, Any]:
        """Take the next piece; with ``check`` (``sha256=…``, ``crc32=…``) all of it or none."""
        with self._tree.writable() as top:
            one = _one(top, upload_id, person)
            fd = top.open(one.part(), os.O_WRONLY)
            try:
                _alone(fd)
                have = os.fstat(fd).st_size
                if offset != have:
                    raise Refusal(409, "offset", "This piece does not follow.", offset=have)
                if have + length > one.size:
                    raise Refusal(413, "too-large", "This is more than was announced.")
                self._take(fd, one, have, body, length, check)
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
        summed = _Check(check)
        arrived = 0
        os.lseek(fd, at, os.SEEK_SET)
        try:
            while arrived < length and (piece := body.read(min(PIECE, length - arrived))):
                _write_all(fd, piece)
                arrived += len(piece)
                summed.update(piece)
                if running is not None:
                    running.update(piece)
        finally:
            whole = arrived == length
            if (not whole or not summed.fits()) and check:
                os.ftruncate(fd, at)
            elif running is not None:
                self._keep(one.id, at + arrived, running)
        if not whole:
            raise Refusal(400, "short", "Not all of this piece arrived.")
        if not summed.fits():
            raise Refusal(409, "checksum", "This piece was damaged on the way; send it again.")

    def _keep(self, upload_id: str, size: int, running: Any) -> None:
        with self._lock:
            self._sums[upload_id] = (size, running)
            self._sums.move_to_end(upload_id)
            while len(self._sums) > _HASHES_KEPT:
                self._sums.popitem(last=False)

    # --- end ----------------------------------------------------------------------------------

    def finish(
        self, upload_id: str, person: str, *, sha256: str, conflict: str = ""
    ) -> Iterator[dict[str, Any]]:
        """Check, flush, move to its name. Yields progress, then what it became."""
        with self._tree.writable() as top:
            one = _one(top, upload_id, person)
            fd = top.open(one.part(), os.O_RDWR)
            try:
                _alone(fd)
                _require_whole(fd, one)
                if sha256:
                    yield from self._verify(fd, one, sha256)
                os.fsync(fd)
                landed = land(top, one.part(), names.item_of(one.path), conflict or one.conflict)
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
            yield {"done": entry_json(landed, top.stat(landed)), "sha256": sha256.lower()}

    def _verify(self, fd: int, one: Upload, wanted: str) -> Iterator[dict[str, Any]]:
        known, running = self._sums.get(one.id, (-1, None))
        if known != one.size or running is None:  # we began anew in between: read it again
            running, beat, at = hashlib.sha256(), Beat(), 0
            while piece := os.pread(fd, PIECE, at):
                running.update(piece)
                at += len(piece)
                if beat():
                    yield {"progress": {"bytes": at, "of": one.size}}
        if not hmac.compare_digest(running.hexdigest(), wanted.lower()):
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
            self._drop(top, _one(top, upload_id, person))

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
            for name in [entry.name for entry in here.entries()]:
                with contextlib.suppress(OSError):
                    if _touched(here, name) < limit:
                        for _one in take_down(here, name):  # also what a copy left when it died
                            pass
                        gone += not name.endswith(".json")
        return gone


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class _Check:
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
        return not self._kind or hmac.compare_digest(found, self._wanted.lower())


def _asked(said: dict[str, Any], person: str) -> Upload:
    size, modified = said.get("size"), said.get("modified")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise Refusal(400, "bad-request", "Say the size in bytes.")
    if not isinstance(modified, int | float) or not 0 <= modified < _FAR:
        modified = None
    path = names.item_of(str(said.get("path", "")))
    conflict = policy_of(said)
    mark = str(said.get("mark", ""))[:200]
    return Upload(secrets.token_hex(16), names.shown(path), size, conflict, person, mark, modified)


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


def _all(top: Folder) -> list[Upload]:
    found = []
    with contextlib.suppress(FileNotFoundError):
        for entry in top.entries(UPLOADS):
            if entry.name.endswith(".json"):
                with contextlib.suppress(Refusal, OSError):
                    found.append(_read(top, entry.name.removesuffix(".json")))
    return found


def _one(top: Folder, upload_id: str, person: str) -> Upload:
    if not _ID.fullmatch(upload_id):
        raise _unknown()
    try:
        one = _read(top, upload_id)
    except OSError:
        raise _unknown() from None
    if one.person != person:
        raise _unknown()
    return one


def _read(top: Folder, upload_id: str) -> Upload:
    """Read a note. It lies where the tenant can write, so nothing in it is believed unchecked."""
    fd, _info = top.open_file(f"{UPLOADS}/{upload_id}.json")
    with os.fdopen(fd, "rb") as file:
        data = file.read(16 * 1024)
    try:
        said = json.loads(data)
        made = _asked(said, str(said["person"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _unknown() from None
    return Upload(**{**asdict(made), "id": upload_id})


def _require_whole(fd: int, one: Upload) -> None:
    size = os.fstat(fd).st_size
    if size != one.size:
        raise Refusal(409, "offset", "Not all of it is here yet.", offset=size)


def _unknown() -> Refusal:
    return Refusal(404, "no-upload", "This upload is not known any more; begin again.")


def _touched(here: Folder, name: str) -> float:
    """Return when somebody went on with it last: a note is as fresh as its part."""
    at = here.stat(name).st_mtime
    if name.endswith(".json"):
        with contextlib.suppress(FileNotFoundError):
            at = max(at, here.stat(f"{name.removesuffix('.json')}.part").st_mtime)
    return at


def _pending(top: Folder, under_way: list[Upload]) -> int:
    """What uploads under way will still take."""
    waiting = 0
    for one in under_way:
        with contextlib.suppress(OSError):
            waiting += max(0, one.size - top.stat(one.part()).st_size)
    return waiting


def _alone(fd: int) -> None:
    """One writer at a time, also among several of these servers."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refusal(409, "in-use", "Another request is writing this upload.") from None
    except OSError:  # a file system without locks: offsets still keep order
        return


def _write(top: Folder, path: str, data: bytes) -> None:
    fd = top.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(fd, "wb") as file:
        file.write(data)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
