"""One system user per (project, owner), when the supervisor runs as root.

Names are stable and numbers are never given twice, so a later user can't own the files of an
earlier one. Users are never deleted: a home may outlive everything else.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from runtime.drivers.local.records import write_atomic
from runtime.drivers.local.wire import Refused

FIRST_UID, LAST_UID = 710_000, 719_999
_TRIES = 10


@dataclass(frozen=True)
class SystemUser:
    name: str
    uid: int
    gid: int


def name_for(project: str, owner: str) -> str:
    return "bw-" + hashlib.sha256(f"{project}\0{owner}".encode()).hexdigest()[:10]


class Users:
    """Finds or makes the system user of a (project, owner)."""

    def __init__(self, state: Path) -> None:
        self._path = state / "users.json"
        self._lock = asyncio.Lock()
        self._known: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError):
            self._known = json.loads(self._path.read_text())

    async def get(self, project: str, owner: str) -> SystemUser:
        name = name_for(project, owner)
        async with self._lock:
            for _ in range(_TRIES):
                if name not in self._known:
                    self._remember(name, self._existing(name) or self._next())
                uid = self._known[name]
                if self._existing(name) is None:
                    await self._make(name, uid)
                if _holder(uid) in (name, None):
                    return SystemUser(name, uid, uid)
                # Another supervisor of this machine was quicker: never share a number.
                self._remember(name, self._next())
        raise Refused("error", "no system user could be made", reason="start-failed")

    def _remember(self, name: str, uid: int) -> None:
        """Written before the user is made: a number that may be in use is never reused."""
        self._known[name] = uid
        write_atomic(self._path, json.dumps(self._known))

    @staticmethod
    def _existing(name: str) -> int | None:
        try:
            uid = pwd.getpwnam(name).pw_uid
        except KeyError:
            return None
        return uid if FIRST_UID <= uid <= LAST_UID else None

    def _next(self) -> int:
        used = [u.pw_uid for u in pwd.getpwall() if FIRST_UID <= u.pw_uid <= LAST_UID]
        return max([*used, *self._known.values(), FIRST_UID - 1]) + 1

    @staticmethod
    async def _make(name: str, uid: int) -> None:
        """Enter the user in the machine's list. Without it only the name is missing."""
        for command in (
            ("groupadd", "--gid", str(uid), name),
            (
                "useradd",
                "--uid",
                str(uid),
                "--gid",
                str(uid),
                "--no-create-home",
                "--home-dir",
                "/nonexistent",
                "--shell",
                "/bin/bash",
                name,
            ),
        ):
            with contextlib.suppress(OSError):
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                    env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                )
                await process.wait()


def _holder(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None  # no list of users can be written here: the number alone isolates too


def own_user() -> SystemUser:
    """Return the user the supervisor itself runs as."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return SystemUser(name, uid, os.getgid())
