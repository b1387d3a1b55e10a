"""Folders with owners of their own: those of secret files, and those that several users share."""

import contextlib
import os
import stat
import struct
from collections.abc import Mapping
from pathlib import Path

from runtime.drivers.local.records import Trash, destroy, write_atomic
from runtime.drivers.local.requests import Refused

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own inside it, checked
_GONE, _NEW = ".gone-", ".new-"
_TRIES = 5


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
        for _ in range(_TRIES):
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
