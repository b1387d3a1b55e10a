"""The shell scripts that run in the container, how names reach them unharmed, and their answers.

Names travel as ``printf %b`` escapes in ASCII: the way to the container carries only UTF-8, and
a name may hold any byte but NUL and ``/``. The first line a script writes is ``ok …`` or
``no <word>``; data follows. The container is the boundary: who may use this may also open a
terminal there. Staying below the home keeps what is shown tidy; a link that leads out is named so.
"""

from __future__ import annotations

import asyncio
import contextlib
import stat
import string
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from django.utils.translation import gettext as _

from common.errors import BerthError, Conflict, Forbidden, Invalid, NotFound, Unavailable
from runtime.streams import STDERR, STDOUT, Exec, Pod, Streams

MAX_PATH = 4000
MAX_NAME = 255
_PLAIN = frozenset((string.ascii_letters + string.digits + "._/-").encode())

_BEGIN = r"""
unset CDPATH; LC_ALL=C; export LC_ALL
no() { printf 'no %s\n' "$1"; exit 9; }
home=$(cd -P -- "${HOME:-/nonexistent}" 2>/dev/null && pwd -P) || no home
[ "$home" = / ] && home=
name() { v=$(printf '%b.' "$1"); v=${v%.}; }
here() { v=$(pwd -P; printf .); v=${v%?}; v=${v%?}; }
enter() {
  name "$1"; cd -P -- "$home/$v" 2>/dev/null || no folder
  here; case "$v/" in "$home"/*) ;; *) no outside;; esac
}
"""

LIST = r"""
enter "$1"
printf 'ok\n'
find . -mindepth 1 -maxdepth 1 -exec stat -c '%f %s %Y %n//' {} + 2>/dev/null | head -c "$2"
"""

DOWNLOAD = r"""
enter "$1"; name "$2"; f="./$v"
[ -e "$f" ] || no missing
[ -d "$f" ] && no is-folder
[ -f "$f" ] || no special
real=$(readlink -f -- "$f" && printf .) || no missing
case "$real" in "$home"/*) ;; *) no outside;; esac
[ -r "$f" ] || no denied
size=$(stat -L -c %s -- "$f") || no denied
printf 'ok %s\n' "$size"
[ "$3" = 1 ] && exit 0
exec head -c "$size" -- "$f"
"""

ARCHIVE = r"""
enter "$1"; name "$2"; f="./$v"
[ -d "$f" ] || no folder
[ -L "$f" ] && no outside
[ -r "$f" ] && [ -x "$f" ] || no denied
command -v tar >/dev/null 2>&1 || no tar
printf 'ok\n'
[ "$3" = 1 ] && exit 0
exec tar -cf - -- "$f"
"""

UPLOAD = r"""
enter "$1"; name "$2"; f="./$v"
[ -d "$f" ] && no is-folder
if [ "$4" != 1 ]; then if [ -e "$f" ] || [ -L "$f" ]; then no exists; fi; fi
part=$(mktemp ./.berth-upload.XXXXXXXX 2>/dev/null) || no denied
printf 'ok\n'
head -c "$3" > "$part" 2>/dev/null || { rm -f -- "$part"; no space; }
size=$(stat -c %s -- "$part")
[ "$size" = "$3" ] || { rm -f -- "$part"; no short; }
chmod "$(printf '%o' $((0666 & ~$(umask))))" "$part"
mv -f -- "$part" "$f" || { rm -f -- "$part"; no denied; }
printf 'done %s\n' "$size"
"""

MKDIR = r"""
enter "$1"; name "$2"; f="./$v"
if [ -e "$f" ] || [ -L "$f" ]; then no exists; fi
mkdir -- "$f" 2>/dev/null || no denied
printf 'ok\n'
"""

RENAME = r"""
enter "$3"; here; to=$v
enter "$1"; name "$2"; f="./$v"
name "$4"; to="$to/$v"
if [ ! -e "$f" ] && [ ! -L "$f" ]; then no missing; fi
if [ -e "$to" ] || [ -L "$to" ]; then no exists; fi
mv -- "$f" "$to" 2>/dev/null || no denied
printf 'ok\n'
"""

DELETE = r"""
enter "$1"; name "$2"; f="./$v"
if [ ! -e "$f" ] && [ ! -L "$f" ]; then no missing; fi
rm -rf -- "$f" 2>/dev/null || no denied
printf 'ok\n'
"""
MOST_LISTED = 1_000_000
MOST_ENTRIES = 5_000
_END = b"//\n"  # no name holds a slash, so only the end of a record looks like this
ANSWER_S = 30.0
MOST = 1_100_000
_LINE = 300


def command(script: str, *words: str) -> list[str]:
    return ["/bin/sh", "-c", _BEGIN + script, "berth", *words]


def escaped(name: bytes) -> str:
    """Return ``name`` as ``printf %b`` reads it back, in ASCII without a ``%``."""
    return "".join(chr(c) if c in _PLAIN else f"\\0{c:03o}" for c in name)


def path_of(given: str) -> tuple[bytes, ...]:
    """Return the parts of a percent-encoded path below the home; Invalid if it could leave it."""
    raw = unquote_to_bytes(given)
    parts = tuple(part for part in raw.split(b"/") if part not in {b"", b"."})
    if len(raw) > MAX_PATH or any(len(part) > MAX_NAME for part in parts):
        raise Invalid(_("This path is too long."))
    if b"\0" in raw or b".." in parts:
        raise Invalid(_("This is not a path below the home."))
    return parts


def split(given: str) -> tuple[str, str]:
    """Return (folder, name), escaped for a script; Invalid for the home itself."""
    parts = path_of(given)
    if not parts:
        raise Invalid(_("Say which file or folder below the home."))
    return escaped(b"/".join(parts[:-1])), escaped(parts[-1])


def folder(given: str) -> str:
    return escaped(b"/".join(path_of(given)))


def shown(parts: Sequence[bytes]) -> str:
    """Return the path as it comes back in a request."""
    return quote_from_bytes(b"/".join(parts))


def refusal(word: str) -> BerthError:
    """Return what a script's ``no <word>`` means."""
    return {
        "home": Unavailable(_("The container has no home folder.")),
        "folder": NotFound(_("There is no such folder.")),
        "missing": NotFound(_("There is no such file.")),
        "outside": Forbidden(_("This leads out of the home folder.")),
        "is-folder": Conflict(_("This is a folder.")),
        "special": Conflict(_("This is not an ordinary file.")),
        "denied": Forbidden(_("The file system does not allow this.")),
        "exists": Conflict(_("Something of this name is there already."), code="exists"),
        "space": Conflict(_("The volume is full, or the file is too large for it.")),
        "short": Conflict(_("Not all of the file arrived; nothing was changed.")),
        "tar": Unavailable(_("The container has no program tar.")),
    }.get(word, Unavailable(_("The container did not answer as expected.")))


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


class Script:
    """One run. ``answer`` is what followed ``ok``; ``data`` goes on after the first line."""

    def __init__(self, running: Exec) -> None:
        self.running = running
        self._output = running.output()
        self._rest = b""
        self._said = b""  # of standard error
        self.answer = ""

    async def begin(self) -> None:
        """Read the first line; raise what a ``no`` means."""
        async with asyncio.timeout(ANSWER_S):
            line = await self.line()
        word, _sep, rest = line.partition(" ")
        if word == "no":
            raise refusal(rest)
        if word not in {"ok", "done"}:
            raise self._nothing()
        self.answer = rest

    async def line(self) -> str:
        while b"\n" not in self._rest:
            part = await self._next()
            if part is None or len(self._rest) > _LINE:
                return ""
            self._rest += part
        line, _sep, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")

    async def data(self) -> AsyncIterator[bytes]:
        if self._rest:
            rest, self._rest = self._rest, b""
            yield rest
        while (part := await self._next()) is not None:
            yield part

    async def _next(self) -> bytes | None:
        async for channel, data in self._output:
            if channel == STDOUT:
                return data
            if channel == STDERR:
                self._said = (self._said + data)[:_LINE]
        return None

    def _nothing(self) -> BerthError:
        said = self._said.decode(errors="replace").strip() or self.running.ended.message
        if "no such file or directory" in said.lower():
            return Unavailable(_("The image has no shell; files can't be shown here."))
        return Unavailable(_("The container did not answer: %(said)s") % {"said": said[:200]})


@contextlib.asynccontextmanager
async def script(
    streams: Streams, pod: Pod, command: Sequence[str], *, stdin: bool = False
) -> AsyncIterator[Script]:
    """Run ``command``; its first line has been read and is a yes."""
    try:
        async with await streams.exec(pod, command, stdin=stdin) as running:
            one = Script(running)
            await one.begin()
            yield one
    except TimeoutError as error:
        raise Unavailable(_("The container takes too long to answer.")) from error


async def short(streams: Streams, pod: Pod, command: Sequence[str]) -> bytes:
    """Run to the end and return all of what it wrote after the first line; bounded."""
    found = bytearray()
    async with script(streams, pod, command) as one, asyncio.timeout(ANSWER_S):
        async for part in one.data():
            found += part
            if len(found) > MOST:
                break
    return bytes(found)
