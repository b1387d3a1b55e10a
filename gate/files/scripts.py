"""The shell scripts that run in the container, and how names reach them unharmed.

Names travel as ``printf %b`` escapes in ASCII: the way to the container carries only UTF-8, and
a name may hold any byte but NUL and ``/``. The first line a script writes is ``ok …`` or
``no <word>``; data follows.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from urllib.parse import quote_from_bytes, unquote_to_bytes

from django.utils.translation import gettext as _

from common.errors import BerthError, Conflict, Forbidden, Invalid, NotFound, Unavailable

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
