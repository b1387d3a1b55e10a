"""A zip archive written as it is read: no temporary file, any size (zip64), names as bytes.

Contents are stored as they are: data is mostly compressed already. What could not be put in
(links, pipes, what is unreadable) is named in a listing at the end.

Of a zip that is read: in which letters its names are written where they do not say so themselves.
A name is marked as UTF-8, or it is in whatever the machine used that packed it. Without a mark
all of an archive is read alike: as UTF-8 where all of it is that, else as Shift-JIS (as Windows
writes it in Japan) where it is Japanese then, else as the format lays down.
"""

from __future__ import annotations

import os
import re
import struct
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from zipfile import ZipInfo

from dataplane.files import memory, names
from dataplane.files.memory import MIB, Share
from dataplane.files.names import FAILURES, Refusal
from dataplane.files.tree import Found, kind_of, open_file, walk
from dataplane.safepath import Folder

MARKED = ""  # every name says itself what it is
UTF_8, JAPANESE, PLAIN = "utf-8", "cp932", "cp437"
_IS_UTF_8 = 0x800
_LETTERS = (
    "\u3041-\u3096\u30a1-\u30fa"  # hiragana, katakana
    "\u3005-\u3007\u4e00-\u9fff\uf900-\ufaff"  # kanji, and what stands for one
)
_SIGNS = (
    "\u3000-\u3004\u3008-\u301f\u309b-\u309e\u30fb-\u30fe"  # of sentences
    "\uff01-\uff5e\uffe0-\uffe6"  # wide forms of ASCII
    "\u2010-\u2026\u203b\u2160-\u216f\u2190-\u2193\u2460-\u2473\u25a0-\u2606\u3231-\u3232"
)
_HALF = "\uff61-\uff9f"  # half-width katakana: any byte of other alphabets may be one
_ALL = re.compile(f"[\\x00-\\x7f{_LETTERS}{_SIGNS}{_HALF}]*")
_RUN = re.compile(f"[{_LETTERS}{_SIGNS}]+")
_LETTER, _HALF_LETTER = re.compile(f"[{_LETTERS}]"), re.compile(f"[{_HALF}]")
_SURE = 3  # so many at once are never a chance
PART = 1024 * 1024
MOST_ENTRIES = 500_000  # what the archive's table of contents may hold in memory
_PLACE = 48  # bytes that each part takes beside itself
_UTF8, _LATER = 0x800, 0x08  # the name is UTF-8; sizes follow the contents
_NEEDS = 45  # version that knows zip64
_MARK32, _MARK16 = 0xFFFFFFFF, 0xFFFF
_UNIX = 3 << 8
_EARLIEST, _LATEST = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)


def reading_of(entries: Iterable[ZipInfo]) -> str:
    """Return the encoding of the names that are not marked; ``MARKED`` when none needs one."""
    names = [raw for info in entries if (raw := _unmarked(info)) and not raw.isascii()]
    if not names:
        return MARKED
    if _all_decode(names, UTF_8):
        return UTF_8
    return JAPANESE if _all_decode(names, JAPANESE) and _are_japanese(names) else PLAIN


def name_of(info: ZipInfo, reading: str) -> str:
    raw = _unmarked(info)
    return raw.decode(reading) if reading and raw else info.filename


def _unmarked(info: ZipInfo) -> bytes:
    """Return the bytes of a name that the library read as ``PLAIN``, which loses nothing.

    It cuts a name at a zero, and newer ones believe a second name that is UTF-8.
    """
    plain = info.orig_filename.partition("\0")[0]
    if info.flag_bits & _IS_UTF_8 or info.filename != plain:
        return b""
    return plain.encode(PLAIN)


def _all_decode(names: Iterable[bytes], encoding: str) -> bool:
    try:
        for raw in names:
            raw.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _are_japanese(names: Iterable[bytes]) -> bool:
    """More of them are surely Japanese than may be so by chance."""
    sure = doubtful = 0
    for raw in names:
        name = raw.decode(JAPANESE)
        if not _ALL.fullmatch(name):
            return False
        doubtful += len(_HALF_LETTER.findall(name))
        for run in _RUN.finditer(name):
            letters = len(_LETTER.findall(run[0]))
            if _is_no_chance(run):
                sure += letters
            else:
                doubtful += letters
    return sure > doubtful


def _is_no_chance(run: re.Match[str]) -> bool:
    """In a western name a kanji is a byte and the letter behind it, among other letters."""
    if len(run[0]) >= _SURE:
        return True
    beside = run.string[max(0, run.start() - 1) : run.start()] + run.string[run.end() :][:1]
    among_letters = any(one.isascii() and one.isalpha() for one in beside)
    like_western = any(one.encode(JAPANESE)[1:].isalpha() for one in run[0])
    if len(run[0]) == 1:
        return not among_letters and not like_western
    return not among_letters or not like_western


class _Table:
    """The table of contents, packed while it grows: lines and paths are much alike."""

    def __init__(self) -> None:
        self.size = 0
        self._packed = zlib.compressobj(1)
        self._parts: list[bytes] = []
        self._bytes = 0

    def add(self, line: bytes) -> None:
        self.size += len(line)
        if part := self._packed.compress(line):
            self._parts.append(part)
            self._bytes += len(part) + _PLACE

    def fits(self, held: Share) -> bool:
        return self._bytes < held.size - MIB or held.grow(MIB)

    def parts(self) -> Iterator[bytes]:
        self._parts.append(self._packed.flush())
        unpacked, self._parts = zlib.decompressobj(), self._parts[::-1]
        while self._parts:
            rest = self._parts.pop()
            while rest:
                yield unpacked.decompress(rest, PART)
                rest = unpacked.unconsumed_tail
        yield unpacked.flush()


@dataclass
class _Archive:
    """Where we are, and the table of contents so far."""

    at: int = 0
    offset: int = 0  # of the entry that is being written
    count: int = 0
    table: _Table = field(default_factory=_Table)

    def sent(self, data: bytes) -> bytes:
        self.at += len(data)
        return data


@dataclass
class _Missed:
    lines: list[str] = field(default_factory=list)
    letters: int = 0
    more: int = 0

    def __call__(self, path: str, why: str) -> None:
        self.letters += len(path)
        if len(self.lines) < 10_000 and self.letters < 500_000:  # noqa: PLR2004 - for people
            self.lines.append(f"{_WHY.get(why, why)}\t{names.readable(path)}\n")
        else:
            self.more += 1

    def text(self) -> bytes:
        end = f"… and {self.more} more\n" if self.more else ""
        return ("Not in this archive:\n" + "".join(self.lines) + end).encode()


_WHY = {
    "link": "a link, never followed",
    "other": "not an ordinary file",
    "denied": "could not be read",
    "too-long": "path too long",
    "too-many": "too many folders",
}


def archive(top: Folder, paths: Sequence[str]) -> Iterator[bytes]:
    """Yield the archive of files and folders. Names start with the last part of each path.

    An error in the middle of a file ends the iterator with it: the archive must not look whole.
    """
    zipped, missed = _Archive(), _Missed()
    with Share() as held:
        held.need(memory.LEAST_LARGE)
        for path in paths:
            base = len(names.split(path)[0]) + 1 if "/" in path else 0
            for found in _all_of(top, path, missed):
                if found is None:
                    continue
                if zipped.count >= MOST_ENTRIES or not zipped.table.fits(held):
                    raise Refusal(413, "too-many", "There are too many files for one archive.")
                name = os.fsencode(found.path[base:])
                if found.kind == "folder":
                    yield _folder(zipped, name, found.info)
                elif found.kind == "file":
                    yield from _file(zipped, top, found, name, missed)
                else:
                    missed(found.path, found.kind)
        if missed.lines:
            text = missed.text()
            now = os.stat_result((0o100644, 0, 0, 0, 0, 0, len(text), 0, int(time.time()), 0))
            yield _head(zipped, b"_not-in-this-archive.txt", now)
            yield zipped.sent(text)
            yield _tail(zipped, b"_not-in-this-archive.txt", now, zlib.crc32(text), len(text))
        at, size, count = zipped.at, zipped.table.size, zipped.count
        yield from zipped.table.parts()
        yield (
            struct.pack(
                "<IQHHIIQQQQ", 0x06064B50, 44, _NEEDS | _UNIX, _NEEDS, 0, 0, count, count, size, at
            )
            + struct.pack("<IIQI", 0x07064B50, 0, at + size, 1)
            + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, _MARK16, _MARK16, _MARK32, _MARK32, 0)
        )


def _all_of(top: Folder, path: str, missed: _Missed) -> Iterator[Found | None]:
    try:
        # The volume itself has no name and no parent here.
        info = top.stat(path) if path else os.fstat(top.fd)
    except OSError:
        missed(path, "denied")
        return
    if path:
        yield Found(path, info)
    if kind_of(info.st_mode) == "folder":
        yield from walk(top, path, missed)


def _file(
    zipped: _Archive, top: Folder, found: Found, name: bytes, missed: _Missed
) -> Iterator[bytes]:
    try:
        fd, info = open_file(top, found.path)
    except (*FAILURES, Refusal):
        missed(found.path, "denied")
        return
    crc = size = 0
    try:
        yield _head(zipped, name, info)
        while data := os.read(fd, PART):
            crc, size = zlib.crc32(data, crc), size + len(data)
            yield zipped.sent(data)
    finally:
        os.close(fd)
    yield _tail(zipped, name, info, crc, size)


def _folder(zipped: _Archive, name: bytes, info: os.stat_result) -> bytes:
    return _head(zipped, name + b"/", info) + _tail(zipped, name + b"/", info, 0, 0)


# --- the format (APPNOTE 6.3.10, 4.3 and 4.5.3) ---------------------------------------------


def _flags(name: bytes) -> int:
    try:
        name.decode()
    except UnicodeDecodeError:
        return _LATER
    return _LATER | _UTF8


def _stamp(info: os.stat_result) -> tuple[int, int]:
    try:
        at = time.localtime(info.st_mtime)[:6]
    except (OverflowError, ValueError, OSError):
        at = _EARLIEST
    at = min(max(at, _EARLIEST), _LATEST)
    clock = at[3] << 11 | at[4] << 5 | at[5] // 2
    return clock, (at[0] - 1980) << 9 | at[1] << 5 | at[2]


def _head(zipped: _Archive, name: bytes, info: os.stat_result) -> bytes:
    """Before the contents; the sizes follow them, with eight bytes each."""
    clock, day = _stamp(info)
    # An empty zip64 field says that the sizes behind the contents are long ones.
    extra = struct.pack("<HHQQ", 1, 16, 0, 0)
    zipped.offset = zipped.at
    fixed = struct.pack(
        "<IHHHHHIIIHH",
        *(0x04034B50, _NEEDS, _flags(name), 0, clock, day, 0, _MARK32, _MARK32),
        *(len(name), len(extra)),
    )
    return zipped.sent(fixed + name + extra)


def _tail(zipped: _Archive, name: bytes, info: os.stat_result, crc: int, size: int) -> bytes:
    """Behind the contents; and the line in the table of contents."""
    clock, day = _stamp(info)
    extra = struct.pack("<HHQQQ", 1, 24, size, size, zipped.offset)
    line = struct.pack(
        "<IHHHHHHIIIHHHHHII",
        *(0x02014B50, _NEEDS | _UNIX, _NEEDS, _flags(name), 0, clock, day),
        *(crc, _MARK32, _MARK32, len(name), len(extra), 0, 0, 0, info.st_mode << 16, _MARK32),
    )
    zipped.table.add(line + name + extra)
    zipped.count += 1
    return zipped.sent(struct.pack("<IIQQ", 0x08074B50, crc, size, size))
