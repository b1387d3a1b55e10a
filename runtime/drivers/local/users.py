"""System users of owners, and folders that belong to somebody: secret files, shared volumes.

One user per (project, owner), when the supervisor runs as root. Names are stable and numbers are
never given twice, so a later user can't own the files of an earlier one. Users are never deleted: a
home may outlive everything else. A volume that a project's members share has a system group of its
own, by the same rules, and a default ACL.
"""

import asyncio
import contextlib
import grp
import hashlib
import json
import os
import pwd
import stat
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.drivers.local.records import Trash, destroy, write_atomic
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


SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own inside it, checked
_GONE, _NEW = ".gone-", ".new-"
_NAME_TRIES = 5


class SecretFolders:
    """One for a supervisor; its name is remembered, so that the next one finds the same."""

    def __init__(self, state: Path, trash: Trash, *, through: bool) -> None:
        """``through``: other users must pass through our folder to reach theirs."""
        self._trash = trash
        self._note, self._mode = state / "secrets-folder", 0o711 if through else 0o700
        self.folder: Path | None = None

    @property
    def in_memory(self) -> bool:
        return self.folder is not None

    def make(self, shared: Path = SHARED_MEMORY) -> None:
        if not _is_memory(shared):
            return
        for _ in range(_NAME_TRIES):
            folder = shared / self._name()
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                found = folder.lstat()
                if folder.is_symlink() or not folder.is_dir() or found.st_uid != os.geteuid():
                    self._note.unlink(missing_ok=True)  # somebody sits there: another name
                    continue
            except OSError:
                return
            folder.chmod(self._mode)
            self.folder = folder
            return

    def _name(self) -> str:
        with contextlib.suppress(OSError):
            if (name := self._note.read_text().strip()).startswith("berth-") and "/" not in name:
                return name
        name = f"berth-{os.urandom(8).hex()}"
        write_atomic(self._note, name)
        return name

    def of(self, uid: str, space: Path) -> Path:
        return self.folder / uid if self.folder else space / "secrets"

    def write(self, folder: Path, files: Mapping[str, str], owner: tuple[int, int] | None) -> None:
        """Put exactly these files at ``folder``, for ``owner`` alone (None: ourselves)."""
        if not files:
            self._put_away(folder)
            return
        fresh = folder.with_name(f"{_NEW}{folder.name}-{os.urandom(4).hex()}")
        fresh.mkdir(mode=0o700)
        try:
            for name, text in files.items():
                fd = os.open(fresh / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
                with os.fdopen(fd, "w") as file:
                    file.write(text)
            if owner:
                for path in (*(fresh / name for name in files), fresh):
                    os.chown(path, *owner)
        except OSError:
            destroy(fresh)
            raise
        self._put_away(folder)
        fresh.rename(folder)

    def drop(self, uid: str, space: Path) -> bool:
        """Take them out of reach at once; ``empty`` deletes them. True when there were any."""
        return self._put_away(self.of(uid, space))

    def _put_away(self, folder: Path) -> bool:
        if self.folder is None:
            return self._trash.take(folder)
        try:
            folder.rename(folder.with_name(f"{_GONE}{folder.name}-{os.urandom(4).hex()}"))
        except FileNotFoundError:
            return False
        return True

    def keep_only(self, living: set[str]) -> None:
        """After a restart: nothing of a workload that ended meanwhile may stay."""
        if self.folder:
            for entry in self.folder.iterdir():
                if entry.name not in living and not entry.name.startswith(_GONE):
                    self.drop(entry.name, self.folder)

    def empty(self) -> None:
        if self.folder and self.folder.is_dir():
            for entry in self.folder.glob(f"{_GONE}*"):
                destroy(entry)

    def close(self) -> None:
        """Leave no folder of ours in the machine's memory when nothing is in it."""
        if self.folder:
            with contextlib.suppress(OSError):
                self.folder.rmdir()


def _is_memory(folder: Path) -> bool:
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return False
    kinds = [words[2] for line in lines if (words := line.split()) and words[1] == str(folder)]
    return bool(kinds) and kinds[-1] in ("tmpfs", "ramfs") and os.access(folder, os.W_OK)


MODE = 0o2770
CLOSED_UMASK, GROUP_UMASK = 0o077, 0o007
_ACL = "system.posix_acl_default"
_USER, _GROUP, _OTHER, _NOBODY = 0x01, 0x04, 0x20, 0xFFFFFFFF
# Version 2, then (tag, permissions, id) for the owner, the group and everybody else.
_DEFAULT = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, bits, _NOBODY) for tag, bits in ((_USER, 7), (_GROUP, 7), (_OTHER, 0))
)


def make_shared(folder: Path, gid: int) -> None:
    """Make it root's with this group; refuse one that is somebody else's. May be repeated."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and found.st_gid in (0, gid)
        if not ours:
            raise Refused(
                "error", f"folder {folder.name} belongs to another user", reason="start-failed"
            ) from None
        if found.st_gid == gid and found.st_mode & 0o7777 == MODE and has_acl(folder):
            return
    os.chown(folder, 0, gid, follow_symlinks=False)
    folder.chmod(MODE)  # its parent is root's alone: nobody can have put a link here
    try:
        os.setxattr(folder, _ACL, _DEFAULT)
    except OSError:
        return  # no ACL on this disk: ``umask_for`` sees it


def has_acl(folder: Path) -> bool:
    try:
        return os.getxattr(folder, _ACL) == _DEFAULT
    except OSError:
        return False


def umask_for(folders: list[Path]) -> int:
    """Return the umask of a process that sees these shared folders."""
    return CLOSED_UMASK if all(has_acl(folder) for folder in folders) else GROUP_UMASK
