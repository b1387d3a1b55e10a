"""One system user per (project, owner), when the supervisor runs as root.

Names are stable and numbers are never given twice, so a later user can't own the files of an
earlier one. Users are never deleted: a home may outlive everything else. A volume that a
project's members share has a system group of its own, by the same rules.
"""

import grp
import hashlib
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from runtime.drivers.local.numbers import Numbers

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

    def __init__(self, state: Path) -> None:
        super().__init__(state / "users.json")

    async def get(self, project: str, owner: str) -> SystemUser:
        name = name_for(project, owner)
        uid = await self.number(name)
        return SystemUser(name, uid, uid)

    def existing(self, name: str) -> int | None:
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            return None

    def holder(self, number: int) -> str | None:
        try:
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return None  # no list of users can be written here: the number alone isolates too

    def used(self) -> list[int]:
        return [user.pw_uid for user in pwd.getpwall()]

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

    def __init__(self, state: Path) -> None:
        super().__init__(state / "volume-groups.json")

    async def get(self, volume_uid: str) -> int:
        return await self.number(group_name_for(volume_uid))

    def existing(self, name: str) -> int | None:
        try:
            return grp.getgrnam(name).gr_gid
        except KeyError:
            return None

    def holder(self, number: int) -> str | None:
        try:
            return grp.getgrgid(number).gr_name
        except KeyError:
            return None

    def used(self) -> list[int]:
        return [group.gr_gid for group in grp.getgrall()]

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
