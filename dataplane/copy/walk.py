"""What lies in a folder, one folder open at a time; links are seen and never followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dataplane.copy.problems import Code, Stop, Trouble, of_os
from dataplane.own import is_own
from dataplane.safepath import Folder, UnsafePath

Missed = Callable[[str, Trouble], None]


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
            missed(f"{below}/", _trouble(error))


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
        missed(path, _trouble(error))
        return None


def _trouble(error: OSError) -> Trouble:
    meant = of_os(error)
    if isinstance(meant, Stop):
        raise meant from None
    return meant
