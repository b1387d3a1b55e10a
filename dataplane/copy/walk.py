"""What lies in a folder, one folder open at a time; links are seen and never followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from dataplane.copy.keys import STATE
from dataplane.safepath import Folder


class Found(NamedTuple):
    path: str
    stat: os.stat_result

    @property
    def regular(self) -> bool:
        return stat.S_ISREG(self.stat.st_mode)


def walk(root: Folder, *, top: bool) -> Iterator[Found]:
    """Yield everything below that is no folder. ``top``: the state of loads lies here."""
    left = [""]
    while left:
        below = left.pop()
        try:
            folder = root.folder(below)
        except (FileNotFoundError, NotADirectoryError):
            continue  # gone meanwhile
        with folder, os.scandir(folder.fd) as entries:
            for entry in entries:
                if top and not below and entry.name.casefold() == STATE:
                    continue
                path = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir(follow_symlinks=False):
                    left.append(path)
                    continue
                try:
                    yield Found(path, entry.stat(follow_symlinks=False))
                except FileNotFoundError:
                    continue


def is_text(path: str) -> bool:
    """Whether a name is valid UTF-8; another one can be no key."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
