"""A backup reads homes as root while their owners, who may be hostile, work in them."""

import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from portal.server import copies
from runtime.drivers.local.records import Trash


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "volumes" / "one"
    folder.mkdir(parents=True)
    (folder / "data").write_text("mine")
    return folder


def archived(home: Path) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    target = home.parents[1] / "b.tar"
    with tarfile.open(target, "w") as archive:
        copies.add_homes(archive, home.parent)
    with tarfile.open(target) as archive:
        found = {}
        for one in archive.getmembers():
            content = archive.extractfile(one) if one.isreg() else None
            found[one.name] = (one, content.read() if content else b"")
        return found


def deep(folder: Path, levels: int = 1500) -> None:
    folder.mkdir(parents=True)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_files_folders_and_links_are_kept_as_they_are(home: Path) -> None:
    (home / "sub").mkdir(mode=0o750)
    (home / "sub" / "deep").write_text("deep")
    (home / "link").symlink_to("/etc/hostname")
    (home / "folder-link").symlink_to("sub")
    os.link(home / "data", home / "same")
    os.mkfifo(home / "pipe")
    found = archived(home)
    assert set(found) == {
        "volumes",
        *(f"volumes/one{tail}" for tail in ("", "/data", "/same", "/sub", "/sub/deep")),
        *(f"volumes/one/{name}" for name in ("link", "folder-link")),
    }
    assert found["volumes/one/sub/deep"][1] == b"deep"
    assert found["volumes/one/link"][0].linkname == "/etc/hostname"
    assert found["volumes/one/sub"][0].mode & 0o777 == 0o750
    hard = {found["volumes/one/data"][0].type, found["volumes/one/same"][0].type}
    assert hard == {tarfile.REGTYPE, tarfile.LNKTYPE}


@pytest.mark.parametrize("how", ["link", "folder", "pipe"])
def test_a_file_exchanged_at_the_last_moment_leads_nowhere(
    how: str, home: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    secret = tmp_path / "shadow"
    secret.write_text("root's own")
    true_open = os.open

    def late(name: Any, *args: Any, **kwargs: Any) -> int:
        if name == "data":
            (home / "data").unlink()
            if how == "link":
                (home / "data").symlink_to(secret)
            elif how == "pipe":
                os.mkfifo(home / "data")
            else:
                (home / "data").mkdir()
        return true_open(name, *args, **kwargs)

    monkeypatch.setattr(os, "open", late)
    found = archived(home)
    there = home / "data"
    became = {"link": there.is_symlink(), "pipe": there.is_fifo(), "folder": there.is_dir()}
    assert became[how], "nobody exchanged it"
    assert not any(b"root's own" in content for _, content in found.values())


def test_a_folder_exchanged_for_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "root"
    outside.mkdir()
    (outside / "key").write_text("root's own")
    (home / "sub").mkdir()
    true_scandir = os.scandir

    def late(fd: Any) -> Any:
        entries = true_scandir(fd)
        if (home / "sub").is_dir() and not (home / "sub").is_symlink():
            (home / "sub").rmdir()
            (home / "sub").symlink_to(outside)
        return entries

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", late)
        found = archived(home)
    assert (home / "sub").is_symlink(), "nobody exchanged it"
    assert not any(b"root's own" in content for _, content in found.values())


def test_a_file_that_shrinks_meanwhile_costs_nobody_else_the_backup(
    home: Path, monkeypatch: Any
) -> None:
    true_info = tarfile.TarFile.gettarinfo

    def late(self: Any, *args: Any, **kwargs: Any) -> Any:
        info = true_info(self, *args, **kwargs)
        if info.name.endswith("data"):
            os.truncate(home / "data", 1)
        return info

    monkeypatch.setattr(tarfile.TarFile, "gettarinfo", late)
    assert archived(home)["volumes/one/data"][1] == b"m\0\0\0"


def test_folders_without_end_cost_nobody_else_the_backup(home: Path) -> None:
    deep(home / "trap")
    (home.parent / "two").mkdir()
    (home.parent / "two" / "mine").write_text("safe")
    try:
        assert archived(home)["volumes/two/mine"][1] == b"safe"
    finally:
        subprocess.run(["rm", "-rf", str(home)], check=True)


def test_trash_with_folders_without_end_is_emptied(tmp_path: Path) -> None:
    trash = Trash(tmp_path / "trash")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    deep(tmp_path / "a-deep")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "link").symlink_to(outside)
    trash.take(tmp_path / "a-deep")
    trash.take(tmp_path / "b")
    trash.empty()
    assert not list(trash.folder.iterdir())
    assert (outside / "kept").exists()
