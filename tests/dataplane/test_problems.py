"""What an error of the file system or of the journal is said to mean."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dataplane.copy.journal import Journal
from dataplane.copy.problems import Code, Final, Stop, Trouble, of_journal, of_opening
from dataplane.safepath import Folder
from tests.dataplane.test_copy_out import out, write
from tests.support.copying import codes
from tests.support.hostile_store import HostileS3


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOENT, Code.GONE),
        (errno.EACCES, Code.UNREADABLE),
        (errno.EPERM, Code.UNREADABLE),
        (errno.EIO, Code.IO),
    ],
)
def test_a_file_that_can_not_be_opened_is_not_said_to_be_gone(number: int, code: Code) -> None:
    meant = of_opening(OSError(number, "…"))
    assert isinstance(meant, Trouble)
    assert meant.code is code


def io_error(code: int = sqlite3.SQLITE_IOERR_WRITE) -> sqlite3.Error:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


def refuses(number: int) -> Any:
    def write_page() -> None:
        raise OSError(number, "…")

    return write_page


@pytest.mark.parametrize(
    ("error", "write_page", "final"),
    [
        (io_error(sqlite3.SQLITE_FULL), lambda: None, Final.DISK_FULL),
        (io_error(), refuses(errno.ENOSPC), Final.DISK_FULL),
        (io_error(), refuses(errno.EDQUOT), Final.QUOTA),
        (io_error(), refuses(errno.EROFS), Final.BAD_PLAN),
        (io_error(), refuses(errno.EIO), Final.INTERNAL),
        (io_error(), lambda: None, Final.INTERNAL),
        (io_error(sqlite3.SQLITE_CORRUPT), lambda: None, Final.INTERNAL),
    ],
)
def test_an_error_of_the_journal_is_a_full_volume_only_where_it_is_full(
    error: sqlite3.Error, write_page: Any, final: Final
) -> None:
    order = of_journal(error, write_page)
    assert order.final is final
    assert ("full" in order.message) is (final is Final.DISK_FULL)


def test_an_export_says_that_a_file_may_not_be_read(
    load: Any, tmp_path: Path, hostile: HostileS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying = out(tmp_path, hostile)
    write(copying, {"a": b"1", "closed": b"2"})
    opened = Folder.open_file

    def open_file(self: Folder, relative: str) -> Any:
        if relative == "closed":
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(self, relative)

    monkeypatch.setattr(Folder, "open_file", open_file)
    order, progress = load(copying)
    assert order.final is Final.PARTIAL
    assert codes(progress) == {"to/closed": "unreadable"}


@pytest.mark.parametrize("where", ["__init__", "put"])
def test_a_journal_on_a_disk_that_fails_does_not_say_full(
    load: Any,
    tmp_path: Path,
    hostile: HostileS3,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    copying = out(tmp_path, hostile)
    write(copying, {"a": b"1"})

    def fails(*_args: Any, **_more: Any) -> None:
        raise io_error()

    monkeypatch.setattr(Journal, where, fails)
    order, _progress = load(copying)
    assert isinstance(order, Stop)
    assert order.final is Final.INTERNAL
    assert "full" not in order.message
