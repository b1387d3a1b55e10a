"""One system user per (project, owner), when the supervisor runs as root.

Names are stable and numbers are never given twice, so a later user can't own the files of an
earlier one. Users are never deleted: a home may outlive everything else. A volume that a
project's members share has a system group of its own, by the same rules.
"""

import asyncio
import contextlib
import grp
import hashlib
import json
import os
import pwd
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.drivers.local.records import write_atomic
from runtime.drivers.local.requests import Refused

_TRIES = 10
Entry = Sequence[Any]


class Numbers:
    """Finds or makes the number of a name. A subclass knows one of the machine's lists."""

    first: int
    last: int

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = asyncio.Lock()
        self._known: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError):
            self._known = json.loads(path.read_text())

    # -- the machine's list: an entry begins with its name, its number is the third -------------

    by_name: Callable[[str], Entry]
    by_number: Callable[[int], Entry]
    everybody: Callable[[], Sequence[Entry]]

    def existing(self, name: str) -> int | None:
        """Return the number the machine's list has for ``name``."""
        try:
            return int(self.by_name(name)[2])
        except KeyError:
            return None

    def holder(self, number: int) -> str | None:
        """Return who has ``number``; where no list can be written, the number alone isolates."""
        try:
            return str(self.by_number(number)[0])
        except KeyError:
            return None

    def commands(self, name: str, number: int) -> tuple[tuple[str, ...], ...]:
        """Return what enters it in the list. Where that fails only the name is missing."""
        raise NotImplementedError

    # -- what is common --------------------------------------------------------------------

    async def number(self, name: str) -> int:
        async with self._lock:
            for _ in range(_TRIES):
                if name not in self._known:
                    self._remember(name, self._in_range(self.existing(name)) or self._next())
                number = self._known[name]
                if self._in_range(self.existing(name)) is None:
                    await _run(self.commands(name, number))
                if self.holder(number) in (name, None):
                    return number
                # Another supervisor of this machine was quicker: never share a number.
                self._remember(name, self._next())
        raise Refused("error", "no system user could be made", reason="start-failed")

    def _in_range(self, number: int | None) -> int | None:
        return number if number is not None and self.first <= number <= self.last else None

    def _remember(self, name: str, number: int) -> None:
        """Written before it is made: a number that may be in use is never reused."""
        self._known[name] = number
        write_atomic(self._path, json.dumps(self._known))

    def _next(self) -> int:
        used = [entry[2] for entry in self.everybody() if self._in_range(entry[2])]
        return max([*used, *self._known.values(), self.first - 1]) + 1


async def _run(commands: tuple[tuple[str, ...], ...]) -> None:
    for command in commands:
        with contextlib.suppress(OSError):
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )
            await process.wait()


FIRST_UID, LAST_UID = 710_000, 719_999
FIRST_GID, LAST_GID = 720_000, 799_999


@dataclass(frozen=True)
class SystemUser:
    name: str
    uid: int
    gid: int


def name_for(project: str, owner: str) -> str:
    return "bw-" + hashlib.sha256(f"{project}\0{owner}".encode()).hexdigest()[:10]


def group_name_for(volume_uid: str) -> str:
    return "bv-" + hashlib.sha256(volume_uid.encode()).hexdigest()[:10]


class Users(Numbers):
    """Finds or makes the system user of a (project, owner)."""

    first, last = FIRST_UID, LAST_UID
    by_name, by_number = staticmethod(pwd.getpwnam), staticmethod(pwd.getpwuid)
    everybody = staticmethod(pwd.getpwall)

    def __init__(self, state: Path) -> None:
        super().__init__(state / "users.json")

    async def get(self, project: str, owner: str) -> SystemUser:
        name = name_for(project, owner)
        uid = await self.number(name)
        return SystemUser(name, uid, uid)

    def commands(self, name: str, number: int) -> tuple[tuple[str, ...], ...]:
        group = ("groupadd", "--gid", str(number), name)
        who = ("--uid", str(number), "--gid", str(number), "--no-create-home")
        where = ("--home-dir", "/nonexistent", "--shell", "/bin/bash")
        return group, ("useradd", *who, *where, name)


class VolumeGroups(Numbers):
    """Finds or makes the system group of a shared volume.

    One for each volume rather than for each project: what a process may reach is what it was
    given, and a volume that moves to another project needs no other owner of its files.
    """

    first, last = FIRST_GID, LAST_GID
    by_name, by_number = staticmethod(grp.getgrnam), staticmethod(grp.getgrgid)
    everybody = staticmethod(grp.getgrall)

    def __init__(self, state: Path) -> None:
        super().__init__(state / "volume-groups.json")

    async def get(self, volume_uid: str) -> int:
        return await self.number(group_name_for(volume_uid))

    def commands(self, name: str, number: int) -> tuple[tuple[str, ...], ...]:
        return (("groupadd", "--gid", str(number), name),)


def own_user() -> SystemUser:
    """Return the user the supervisor itself runs as."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return SystemUser(name, uid, os.getgid())
