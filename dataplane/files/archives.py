"""What is in an archive, one thing after another, without believing what it says of itself.

The formats are the library's (``zipfile``, ``tarfile`` with its ``data`` filter). Here is what
bounds them: neither a table of contents, nor a header, nor a dictionary is read into memory
before it is known to be small. Nothing is written here.
"""

from __future__ import annotations

import bz2
import calendar
import contextlib
import copy
import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Protocol

from dataplane.files import memory, zipping
from dataplane.files.memory import Share
from dataplane.files.names import Refusal

PART = 1024 * 1024
ENDS = (*(".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".tbz2", ".tbz", ".txz"), *(".tar", ".zip"))
_MOST_TABLE = 32 * 1024 * 1024  # of a zip's table of contents
_LEAST_LINE, _ZIP_ENTRY = 46, 560  # bytes of the table, and of memory, for an entry
_MOST_HEADER = 1024 * 1024  # of one entry of a tar: names, access lists
_MOST_DICTIONARY = 100 * 1024 * 1024  # of xz: level 9 needs 65 MiB
_USUAL_DICTIONARY = 12 * 1024 * 1024  # level 6, which is used when none is asked for
_XZ_HEAD = 4096  # its headers, and the beginning of what is packed
_ENTRY = b"PK\x01\x02"
_KNOWN = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2})
_LOCKED = 0x1
_SOMEWHERE = "/archive"  # the data filter resolves names below a folder; it is never looked at
# Python before 3.11.4 lacks it: there the rules for kinds here and for names of files stand alone.
_LIBRARY_FILTER = "data_filter"
_BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(EOFError, NotImplementedError, ValueError, UnicodeError, MemoryError),
)


@dataclass(frozen=True)
class Member:
    """``flaw`` says why it is left out, "" when it is an ordinary file or folder."""

    name: str
    size: int = 0
    is_folder: bool = False
    runs: bool = False  # its owner may execute it
    modified: float | None = None
    flaw: str = ""
    open: Callable[[], IO[bytes]] | None = None


class Archive(Protocol):
    most: int  # entries
    names: str  # the encoding that they were read as; "" where they say it themselves

    def members(self) -> Iterator[Member | None]:
        """Yield from the beginning; None now and then while what is between is skipped."""


def opened(file: IO[bytes], held: Share) -> Archive:
    """Say what it is by its first bytes, not by its name; ``held`` is what reading it takes."""
    head = file.read(8)
    file.seek(0)
    if head[:4] in {b"PK\x03\x04", b"PK\x05\x06"}:
        return Zip(file, held)
    if head[:2] == b"\x1f\x8b":
        held.need(memory.LEAST_LARGE)
        return Tar(file, lambda: gzip.GzipFile(fileobj=file))
    if head[:3] == b"BZh":
        held.need(2 * memory.LEAST_LARGE)
        return Tar(file, lambda: bz2.BZ2File(file))
    if head[:6] == b"\xfd7zXZ\0":
        most = _dictionary_of(file)
        held.need(most + memory.LEAST_LARGE)
        return Tar(file, lambda: _Xz(file, most))
    held.need(memory.LEAST_LARGE)
    return Tar(file, None)


@contextlib.contextmanager
def damage() -> Iterator[None]:
    """Turn what the libraries say of broken data into a refusal; errors of the storage pass."""
    try:
        yield
    except _BROKEN as error:
        raise _broken() from error
    except OSError as error:
        if error.errno is None:  # gzip and bz2 say so of their data
            raise _broken() from error
        raise


def _broken() -> Refusal:
    return Refusal(409, "broken-archive", "This archive is damaged; nothing was unpacked.")


def not_known() -> Refusal:
    return Refusal(409, "not-archive", "This is not an archive that can be unpacked here.")


# --- zip --------------------------------------------------------------------------------------


class Zip:
    """The table of contents is in memory: twice, and what the library makes of each entry."""

    most = 150_000  # some 100 MiB, of the 256 that the server may have

    def __init__(self, file: IO[bytes], held: Share) -> None:
        # find it as ``ZipFile`` itself does, so that both mean the same one
        with damage():
            found = zipfile._EndRecData(file)  # type: ignore[attr-defined] # noqa: SLF001
        if not found:
            raise _broken()
        size, at = found[zipfile._ECD_SIZE], found[zipfile._ECD_LOCATION]  # type: ignore[attr-defined] # noqa: SLF001
        if size > _MOST_TABLE:
            raise too_many()
        entries = min(self.most, size // _LEAST_LINE)
        takes = memory.LEAST_LARGE + 2 * size + _ZIP_ENTRY * entries
        held.need(min(takes, memory.LARGE.most))
        begin = max(0, at - size - 128)  # zip64 says where it is in front of the end
        file.seek(begin)
        if file.read(at - begin).count(_ENTRY) > self.most:
            raise too_many()
        with damage():
            self._zip = zipfile.ZipFile(file)
            packed = sum(info.compress_size for info in self._zip.infolist())
            file.seek(0, 2)
            if packed > file.tell():
                raise bomb()  # entries share their bytes
            self.names = zipping.reading_of(self._zip.infolist())

    def members(self) -> Iterator[Member | None]:
        for info in self._zip.infolist():
            mode = info.external_attr >> 16
            yield Member(
                name=zipping.name_of(info, self.names),
                size=info.file_size,
                is_folder=info.is_dir(),
                runs=bool(mode & stat.S_IXUSR),
                modified=_zip_time(info),
                flaw=_zip_flaw(info, stat.S_IFMT(mode)),
                open=lambda info=info: self._open(info),  # type: ignore[misc]
            )

    def _open(self, info: zipfile.ZipInfo) -> IO[bytes]:
        """The library unpacks bzip2 at one go, and a few bytes of it may be gigabytes."""
        if info.compress_type != zipfile.ZIP_BZIP2:
            return self._zip.open(info)
        packed = copy.copy(info)
        packed.compress_type, packed.file_size = zipfile.ZIP_STORED, info.compress_size
        del packed.CRC  # it is that of the contents
        return _Bzip2(self._zip.open(packed), info.CRC)


class _Bzip2(bz2.BZ2File):
    """Gives no more than is asked for, and compares the checksum at the end."""

    def __init__(self, packed: IO[bytes], crc: int) -> None:
        super().__init__(packed)
        self._wanted, self._crc = crc, 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self._crc = zlib.crc32(found, self._crc)
        if not found and size and self._crc != self._wanted:
            raise zipfile.BadZipFile
        return found


def _zip_flaw(info: zipfile.ZipInfo, kind: int) -> str:
    if kind == stat.S_IFLNK:
        return "link"
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        return "other"
    if info.flag_bits & _LOCKED:
        return "locked"
    return "" if info.compress_type in _KNOWN else "not-possible"


def _zip_time(info: zipfile.ZipInfo) -> float | None:
    try:
        return float(calendar.timegm((*info.date_time, 0, 0, 0)))
    except (ValueError, OverflowError):
        return None


# --- tar --------------------------------------------------------------------------------------


class Tar:
    """Has no table: to know what is in it, it is read once before anything is written."""

    most, names = 1_000_000, ""

    def __init__(self, file: IO[bytes], unpacked: Callable[[], Any] | None) -> None:
        self._file, self._unpacked = file, unpacked

    def members(self) -> Iterator[Member | None]:
        self._file.seek(0)
        source = _Source(self._unpacked() if self._unpacked else self._file)
        mode: Any = "r|" if self._unpacked else "r:"
        with damage(), _tar(source, mode) as tar:
            while True:
                source.allow(_MOST_HEADER)
                info = tar.next()
                source.allow(None)
                tar.members.clear()  # type: ignore[attr-defined] # it would keep them all
                if info is None:
                    break
                yield _tar_member(tar, info)
                if self._unpacked and info.isreg() and not info.issparse():
                    stream: Any = tar.fileobj
                    end = info.offset_data + info.size
                    while (left := end - stream.tell()) > 0:
                        if not stream.read(min(left, PART)):
                            raise EOFError
                        yield None
                self._require_worth(source)
            # behind the last entry is the checksum of what was packed
            while self._unpacked and source.read(PART):
                self._require_worth(source)
                yield None

    def _require_worth(self, source: _Source) -> None:
        """What is unpacked and belongs to nothing is no reason to go on unpacking."""
        if self._unpacked:
            require_sane(source.taken, self._file.tell())


def _tar(source: _Source, mode: Any) -> tarfile.TarFile:
    source.allow(_MOST_HEADER)
    try:
        return tarfile.open(fileobj=source, mode=mode, errorlevel=2)  # type: ignore[call-overload]
    except tarfile.ReadError:
        raise not_known() from None


def _tar_member(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    flaw = "link" if info.issym() or info.islnk() else ""
    if not flaw and (info.issparse() or not (info.isreg() or info.isdir())):
        flaw = "other"
    if flaw:
        return Member(info.name, flaw=flaw)
    if (kept := _filtered(info)) is None:
        return Member(info.name, flaw="bad-path")
    return Member(
        name=kept.name,
        size=info.size,
        is_folder=info.isdir(),
        runs=bool((kept.mode or 0) & stat.S_IXUSR),
        modified=float(info.mtime),
        open=lambda: _contents(tar, info),
    )


def _filtered(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    library: Any = getattr(tarfile, _LIBRARY_FILTER, None)
    if library is None:
        return info
    try:
        kept: tarfile.TarInfo = library(info, _SOMEWHERE)
    except tarfile.FilterError:
        return None
    return kept


def _contents(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    found = tar.extractfile(info)
    if found is None:
        raise _broken()
    return found


class _Source:
    """What a tar is read from. While a header is read only so much is given."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.taken = inner, 0
        self._left: int | None = None

    def allow(self, most: int | None) -> None:
        self._left = most

    def read(self, size: int = -1) -> bytes:
        if self._left is not None:
            if size < 0 or size > self._left:
                raise Refusal(413, "archive-odd", "A header of this archive is too large.")
            self._left -= size
        found: bytes = self._inner.read(size)
        self.taken += len(found)
        return found

    def seek(self, at: int, whence: int = 0) -> int:
        return int(self._inner.seek(at, whence))

    def tell(self) -> int:
        return int(self._inner.tell())

    def close(self) -> None: ...


def _dictionary_of(file: IO[bytes]) -> int:
    """Return what may be taken for it; an archive of parts is taken for what its first one is."""
    head = file.read(_XZ_HEAD)
    file.seek(0)
    try:
        lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_USUAL_DICTIONARY).decompress(head, 1)
    except lzma.LZMAError:
        return _MOST_DICTIONARY
    return _USUAL_DICTIONARY


class _Xz:
    """Like ``lzma.LZMAFile``, which knows no bound for what its dictionary takes."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file, self._most = file, most
        self._inner = self._new()

    def _new(self) -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=self._most)

    def read(self, size: int) -> bytes:
        while True:
            if self._inner.eof:
                rest = (self._inner.unused_data or self._file.read(PART)).lstrip(b"\0")
                if not rest:
                    return b""
                self._inner = self._new()  # streams may follow one another
            else:
                rest = self._file.read(PART) if self._inner.needs_input else b""
                if not rest and self._inner.needs_input:
                    raise EOFError
            if found := self._inner.decompress(rest, size):
                return found


# --- bounds -----------------------------------------------------------------------------------

_SANE, _UNASKED = 200, 1024**3  # times as large as it was; no question up to so much


def require_sane(unpacked: int, packed: int) -> None:
    if unpacked > _UNASKED and unpacked > _SANE * max(1, packed):
        raise bomb()


def bomb() -> Refusal:
    return Refusal(413, "bomb", "This archive unpacks to far more than it can honestly hold.")


def too_many() -> Refusal:
    return Refusal(413, "archive-many", "There is more in this archive than can be unpacked.")
