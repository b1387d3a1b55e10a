"""From a store's key to a path in the folder and back, and what lies in that folder.

A key that can't be exactly one file below the folder is refused and named, never changed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dataplane.copy.problems import Code, Trouble, trouble_of
from dataplane.safepath import NAME_MAX, OWN, PATH_MAX, Folder, UnsafePath, is_own

KEY_MAX = 1024  # bytes, both kinds of store
# Control characters, and those that make a name be shown in another order than it is.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
_WILD = re.compile(r"(\*\*/|\*\*|\*|\?|\[[^]/]+\])")
_STARS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
DEEP_MOST = 3
_WRONG = "The key can't be the name of a file: "
Missed = Callable[[str, Trouble], None]


def base_of(prefix: str) -> str:
    """Return the part of keys that is not repeated in the folder: up to the last slash."""
    return prefix[: prefix.rfind("/") + 1]


def path_of(key: str, base: str, folder: str) -> str:
    """Return the path below ``folder`` (a path in the volume), or raise what is wrong with it."""
    path = key[len(base) :] if base and key.startswith(base) else key
    if _CONTROL.search(path):
        raise _bad("it holds control characters.")
    if path[:1] == "/":
        raise _bad("it starts with a slash.")
    for part in path.split("/"):
        if not part:
            raise _bad("a part of it is empty.")
        if part in {".", ".."}:
            raise _bad("“.” and “..” lead elsewhere.")
        if len(part) * 4 > NAME_MAX and len(part.encode("utf-8", "surrogatepass")) > NAME_MAX:
            raise _bad("a part of it is longer than 255 bytes.")
    if not folder and is_own(path.partition("/")[0]):
        raise _bad(f"“{OWN}” is kept for the state of loads.")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise _bad("it is not valid text.") from None
    if size + len(os.fsencode(folder)) + 1 > PATH_MAX:
        raise _bad("the path would be too long.")
    return path


def key_of(path: str, prefix: str) -> str:
    """Return the key under which a file of the folder is stored, or raise."""
    try:
        key = prefix + path
        size = len(key.encode())
    except UnicodeEncodeError:
        raise Trouble(Code.BAD_KEY, "The name of the file is not valid text.") from None
    if size > KEY_MAX:
        raise Trouble(Code.BAD_KEY, "The key would be longer than 1,024 bytes.")
    if _CONTROL.search(path):
        raise Trouble(Code.BAD_KEY, "The name of the file holds control characters.")
    return key


def is_text(name: str) -> bool:
    """Whether a name is valid UTF-8; another one can be no key."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def chosen_by(include: tuple[str, ...], exclude: tuple[str, ...]) -> Callable[[str], bool] | None:
    """Return a filter of paths, None where every path is chosen.

    ``*`` and ``?`` stay within one folder, ``**`` does not. A pattern without a slash is for
    the last component, wherever the file lies.
    """
    if not include and not exclude:
        return None
    wanted = _any_of(include)
    unwanted = _any_of(exclude)

    def chosen(path: str) -> bool:
        if wanted is not None and not wanted.fullmatch(path):
            return False
        return unwanted is None or not unwanted.fullmatch(path)

    return chosen


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    if not patterns:
        return None
    return re.compile("|".join(f"(?:{_regex(p)})" for p in patterns), re.DOTALL)


def _regex(pattern: str) -> str:
    where = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    if pattern.endswith("/"):
        pattern += "**"
    parts = [part for part in _WILD.split(pattern.removeprefix("/")) if part]
    if sum(part.startswith("**") for part in parts) > DEEP_MOST:
        raise ValueError("a pattern has too many “**”")
    out, star = [where], False
    for n, part in enumerate(parts):
        if part not in _STARS:
            out.append(_plain(part))
            continue
        if star:
            out.append(")")
        # Where another star follows, the first place where what is between fits is as good as
        # any other: so it never looks back, and no pattern can keep us busy for ever.
        later = next((p for p in parts[n + 1 :] if p in _STARS), "")
        star = part == "*" and later in {"*", "**"}
        out.append("(?>[^/]*?" if star else _STARS[part])
    return "".join(out) + (")" if star else "")


def _plain(part: str) -> str:
    if part == "?":
        return "[^/]"
    if part[:1] == "[" and part[-1:] == "]":
        inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return "[" + ("^" + inside[1:] if inside[:1] in {"!", "^"} else inside) + "]"
    return re.escape(part)


def _bad(why: str) -> Trouble:
    return Trouble(Code.BAD_KEY, _WRONG + why)


class Found(NamedTuple):
    path: str
    stat: os.stat_result

    @property
    def regular(self) -> bool:
        return stat.S_ISREG(self.stat.st_mode)


def walk(root: Folder, *, top: bool, missed: Missed) -> Iterator[Found]:
    """Yield everything below that is no folder. ``top``: the state of loads lies here.

    What can't be looked at is told to ``missed`` (a folder with a slash at its end), and the
    walk goes on beside it.
    """
    left = [""]
    while left:
        below = left.pop()
        try:
            with root.folder(below) as folder, os.scandir(folder.fd) as entries:
                for entry in entries:
                    if top and not below and is_own(entry.name):
                        continue
                    path = f"{below}/{entry.name}" if below else entry.name
                    found = _looked_at(entry, path, left, missed)
                    if found is not None:
                        yield found
        except (FileNotFoundError, NotADirectoryError):
            continue  # gone meanwhile
        except UnsafePath:
            missed(f"{below}/", Trouble(Code.BAD_KEY, "The path is too long to be opened."))
        except OSError as error:
            missed(f"{below}/", trouble_of(error))


def _looked_at(entry: os.DirEntry[str], path: str, left: list[str], missed: Missed) -> Found | None:
    """Return what is no folder; a folder is added to what is ``left``."""
    try:
        if entry.is_dir(follow_symlinks=False):
            left.append(path)
            return None
        return Found(path, entry.stat(follow_symlinks=False))
    except FileNotFoundError:
        return None
    except OSError as error:
        missed(path, trouble_of(error))
        return None
