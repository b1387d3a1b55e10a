"""In which letters the names of a zip are written that do not say so themselves.

A name is marked as UTF-8, or it is in whatever the machine used that packed it. Without a mark
all of an archive is read alike: as UTF-8 where all of it is that, else as Shift-JIS (as Windows
writes it in Japan) where it is Japanese then, else as the format lays down. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from zipfile import ZipInfo

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
