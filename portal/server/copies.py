"""Copies of what a backup holds: the database as files, and homes, whose owners may be hostile."""

import contextlib
import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Self, cast

from portal.server.paths import Paths, Refusal

COPIES_KEPT = 3  # before upgrades


def vendor() -> str:
    from django.db import connection

    return connection.vendor


def sqlite_path() -> Path:
    from django.db import connection

    return Path(connection.settings_dict["NAME"])


def copy_sqlite(source: Path, target: Path) -> None:
    """A copy as of one moment, with writers at work. Root leaves no file of its own behind."""
    if not source.exists():
        message = f"There is no database at {source}; has Berth been started here once?"
        raise Refusal(message)
    content = target.with_suffix(".tmp")
    content.touch(mode=0o600)
    owner = source.stat()
    if os.geteuid() == 0:
        os.chown(content, owner.st_uid, owner.st_gid)
    with (
        acting_as(owner),
        contextlib.closing(sqlite3.connect(source, timeout=30)) as old,
        contextlib.closing(sqlite3.connect(content)) as new,
    ):
        old.backup(new)
    content.rename(target)


@contextlib.contextmanager
def acting_as(owner: os.stat_result) -> Iterator[None]:
    """SQLite makes helper files beside the database; they must belong to its owner."""
    if os.geteuid() != 0 or owner.st_uid == 0:
        yield
        return
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def copy_before_upgrade(places: Paths) -> Path:
    """Keeps the database as it was before a migration, and the newest few of such copies."""
    folder = places.var / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    target = folder / f"before-upgrade-{stamp}.sqlite3"
    copy_sqlite(sqlite_path(), target)
    for old in sorted(folder.glob("before-upgrade-*.sqlite3"))[:-COPIES_KEPT]:
        old.unlink()
    return target


def postgresql(program: str, *options: str) -> None:
    from django.db import connection

    found = shutil.which(program)
    if not found:
        message = f"{program} is not on this machine; install PostgreSQL's client programs."
        raise Refusal(message)
    given = connection.settings_dict
    words = [found, "--dbname", given["NAME"], *options]
    for option, key in (("--host", "HOST"), ("--port", "PORT"), ("--username", "USER")):
        if given[key]:
            words += [option, str(given[key])]
    env = {**os.environ, "PGPASSWORD": given["PASSWORD"] or ""}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"{program} failed: {done.stderr.strip()[-500:]}"
        raise Refusal(message)


def belong(path: Path, example: os.stat_result) -> None:
    """Root restores for the user that runs the portal."""
    if os.geteuid() == 0:
        os.chown(path, example.st_uid, example.st_gid)


# Words of a tar archive (pax) for lists that tarfile itself does not keep.
ACLS = {
    "BERTH.acl.access": "system.posix_acl_access",
    "BERTH.acl.default": "system.posix_acl_default",
}
DEEPEST = 200  # folders in folders; more is an accident or a trap


def add_homes(archive: tarfile.TarFile, volumes: Path) -> None:
    """Copies homes while their owners work in them.

    Root reads here what strangers may exchange at any moment: every folder and file is opened by
    its parent's descriptor and never through a link, and what changes meanwhile costs its owner a
    part of that file, not everybody the backup.
    """
    if not volumes.is_dir():
        return
    for folder, folders, files, here in os.fwalk(volumes, onerror=left_out):
        place = PurePosixPath("volumes", Path(folder).relative_to(volumes))
        if len(place.parts) > DEEPEST:
            print(f"Left out what is nested too deep: {place}")
            folders.clear()
            continue
        add_open(archive, os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here), place)
        for name in (*files, *folders):
            try:
                add_entry(archive, here, name, place / name)
            except PermissionError as error:
                left_out(error)
            except FileNotFoundError:
                continue  # gone since the folder was read


def left_out(error: OSError) -> None:
    print(f"Left out {error.filename}: {error.strerror}")


def add_entry(archive: tarfile.TarFile, here: int, name: str, place: PurePosixPath) -> None:
    """A file or a link. Folders come by themselves; nothing else belongs into a home."""
    found = os.stat(name, dir_fd=here, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        info = tarfile.TarInfo(str(place))
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=here)
        info.uid, info.gid, info.mtime = found.st_uid, found.st_gid, found.st_mtime
        archive.addfile(info)
    elif stat.S_ISREG(found.st_mode):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            opened_file = os.open(name, flags, dir_fd=here)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENXIO}:
                return  # it was a file a moment ago
            raise
        add_open(archive, opened_file, place)


def add_open(archive: tarfile.TarFile, number: int, place: PurePosixPath) -> None:
    """What this descriptor really is decides; its name may stand for something else by now."""
    with Opened(number) as file:
        info = archive.gettarinfo(arcname=str(place), fileobj=cast("IO[bytes]", file))
        if info is None or not (info.isreg() or info.isdir() or info.islnk()):
            return
        info.pax_headers = acls_of(number)
        archive.addfile(info, file if info.isreg() else None)


def acls_of(number: int) -> dict[str, str]:
    """Return the access lists of what is open; shared folders pass theirs on to what is new."""
    found = {}
    for key, attribute in ACLS.items():
        with suppress(OSError):  # it has none, or this disk knows none
            found[key] = os.getxattr(number, attribute).hex()
    return found


def put_acls(member: tarfile.TarInfo, path: Path) -> bool:
    """Give a restored file or folder its access lists again; False: this disk takes none."""
    for key, attribute in ACLS.items():
        if said := member.pax_headers.get(key):
            try:
                os.setxattr(path, attribute, bytes.fromhex(said), follow_symlinks=False)
            except (OSError, ValueError):
                return False
    return True


class Opened:
    """A descriptor as tarfile reads it: a file that shrinks meanwhile ends in zeros."""

    name = ""

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        return self._number

    def read(self, size: int = 0, /) -> bytes:
        data = b""
        while len(data) < size and (part := os.read(self._number, size - len(data))):
            data += part
        return data.ljust(size, b"\0")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._number)
