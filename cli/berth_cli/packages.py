"""Code that goes along with a job: a folder, packed the same way each time, sent to the portal."""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click

from berth_cli.client import EXIT_USAGE, ApiError
from berth_cli.context import Session
from berth_cli.output import printable, size

MAX_FILES = 20_000
MAX_UNPACKED = 512 * 2**20
_LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", ".ipynb_checkpoints", ".DS_Store"})
_INSTEAD = "Put what is large on a volume, and give it to the job with --volume."


def package_sent(s: Session, folder: Path, *, plan: bool = False) -> str:
    """Send a folder to the portal and return its digest; ``plan``: only pack it, return ""."""
    if not folder.is_dir():
        raise ApiError(f"{folder} is no folder.", EXIT_USAGE)
    for name in ("setup.py", "pyproject.toml"):
        if (folder.absolute().parent / name).exists():
            said = f"{name} beside {folder.name} is not run: what it needs must be in its image or"
            click.echo(f"{said} environment.", err=True)
            break
    with tempfile.TemporaryFile() as packed:
        count, total = pack(folder, packed)
        length = packed.tell()
        what = f"{folder.name}: {count} files, {size(total)}, packed {size(length)}"
        if plan:
            click.echo(f"Would send {printable(what)}.", err=True)
            return ""
        packed.seek(0)
        from berth_cli.carrying import Progress  # a list of jobs reads this module, too

        shown = Progress(length, folder.name)
        path = f"projects/{s.project}/packages"
        answer: dict[str, Any] = s.client.send(path, packed, length, shown.at)
        click.echo(f"Sent {printable(what)}.", err=True)
    return str(answer["sha256"])


def pack(folder: Path, into: IO[bytes]) -> tuple[int, int]:
    """Write a folder, under its own name, as tar.gz; return how many files and bytes it has.

    The same files give the same bytes: no times, no owners, in the order of their names.
    """
    folder = folder.resolve()
    count = total = 0
    with (
        gzip.GzipFile(fileobj=into, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in _found(folder):
            entry = tar.gettarinfo(path, arcname=str(path.relative_to(folder.parent)))
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            if entry.islnk():  # two names of one file: each is a file of its own here
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
            count, total = count + 1, total + entry.size
            if count > MAX_FILES:
                raise ApiError(f"{folder} has more than {MAX_FILES} files. {_INSTEAD}", EXIT_USAGE)
            if total > MAX_UNPACKED:
                raise ApiError(
                    f"{folder} holds more than {size(MAX_UNPACKED)}. {_INSTEAD}", EXIT_USAGE
                )
            if entry.isreg():
                with path.open("rb") as opened:
                    tar.addfile(entry, opened)
            else:
                tar.addfile(entry)
    return count, total


def _found(folder: Path) -> Iterator[Path]:
    """Yield what goes along, in order; refuse what can't be unpacked safely elsewhere."""
    yield folder
    for path in sorted(folder.iterdir()):
        name = path.name
        if name in _LEFT_OUT or name.endswith(".pyc"):
            continue
        try:
            name.encode()
        except UnicodeEncodeError as error:
            shown = os.fsencode(path).decode(errors="replace")
            raise ApiError(f"The name {shown} is not UTF-8. Rename it.", EXIT_USAGE) from error
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise ApiError(f"{path} is a link. Copy what it leads to, or leave it out.", EXIT_USAGE)
        if stat.S_ISDIR(mode):
            yield from _found(path)
        elif stat.S_ISREG(mode):
            yield path
        else:
            raise ApiError(f"{path} is no file and no folder. Leave it out.", EXIT_USAGE)
