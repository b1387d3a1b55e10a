"""Nothing is opened, made, moved or removed outside the folder, by either way of resolving."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataplane import safepath
from dataplane.safepath import Flaw, Folder, UnsafePath, parts_of


@pytest.fixture(params=["openat2", "walk"])
def folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Folder]:
    if request.param == "walk":
        monkeypatch.setattr(safepath, "_has_openat2", lambda: False)
    elif not safepath._has_openat2():
        pytest.skip("this kernel has no openat2")
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/deep/file").write_text("inside")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/secret").write_text("outside")
    with Folder.at(tmp_path / "in") as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "flaw"),
    [
        ("/etc/passwd", Flaw.ABSOLUTE),
        ("../out", Flaw.DOTS),
        ("a/../../out", Flaw.DOTS),
        ("a/./b", Flaw.DOTS),
        ("a//b", Flaw.EMPTY),
        ("a/", Flaw.EMPTY),
        ("a\0b", Flaw.NUL),
        ("é" * 128, Flaw.LONG),
        ("/".join(["d" * 200] * 21), Flaw.LONG),
    ],
)
def test_d1_a_path_that_is_not_below_is_refused_before_the_kernel_is_asked(
    path: str, flaw: Flaw
) -> None:
    with pytest.raises(UnsafePath) as caught:
        parts_of(path)
    assert caught.value.flaw is flaw


def test_what_may_be_a_name_is_one() -> None:
    assert parts_of("a/b c/…/..d/e..") == ("a", "b c", "…", "..d", "e..")
    assert parts_of("x" * 255) == ("x" * 255,)
    assert parts_of("") == ()


def test_files_are_read_and_written_below(folder: Folder) -> None:
    fd, seen = folder.open_file("deep/file")
    assert (os.read(fd, 100), seen.st_size) == (b"inside", 6)
    os.close(fd)
    fd = folder.open("deep/new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    os.write(fd, b"x")
    os.close(fd)
    assert folder.stat("deep/new").st_size == 1
    with folder.folder("one/two/three", make=True) as made:
        made.make("four")
    assert sorted(e.name for e in folder.entries("one/two/three")) == ["four"]
    folder.rename("deep/new", "one/moved")
    folder.unlink("one/moved")
    folder.rmdir("one/two/three/four")
    assert [e.name for e in folder.entries("one")] == ["two"]


@pytest.mark.parametrize("target", ["../out", "/", "deep"])
def test_d1_no_link_is_followed_on_the_way(folder: Folder, tmp_path: Path, target: str) -> None:
    (tmp_path / "in/link").symlink_to(target)
    for act in (
        lambda: folder.open("link/secret"),
        lambda: folder.open("link/new", os.O_WRONLY | os.O_CREAT),
        lambda: folder.folder("link/x", make=True),
        lambda: folder.stat("link/secret"),
        lambda: folder.rename("deep/file", "link/file"),
        lambda: folder.unlink("link/secret"),
        lambda: list(folder.entries("link")),
    ):
        with pytest.raises(OSError) as caught:
            act()
        assert caught.value.errno in {errno.ELOOP, errno.ENOTDIR, errno.EXDEV}
    assert (tmp_path / "out/secret").read_text() == "outside"
    assert (tmp_path / "in/deep/file").read_text() == "inside"


def test_a_link_itself_is_seen_moved_and_removed(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "in/link").symlink_to("../out/secret")
    with pytest.raises(OSError):
        folder.open("link")
    folder.rename("link", "deep/link")
    assert (tmp_path / "in/deep/link").readlink() == Path("../out/secret")
    folder.unlink("deep/link")
    assert (tmp_path / "out/secret").read_text() == "outside"


def test_a_pipe_does_not_stop_the_reader(folder: Folder, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in/pipe")
    with pytest.raises(OSError, match="not a regular file"):
        folder.open_file("pipe")
    with pytest.raises(OSError, match="not a regular file"):
        folder.open_file("deep")


def test_moving_without_replacing_leaves_what_is_there(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "in/other").write_text("other")
    with pytest.raises(FileExistsError):
        folder.rename("deep/file", "other", replace=False)
    folder.rename("deep/file", "free", replace=False)
    assert (tmp_path / "in/other").read_text() == "other"
    assert (tmp_path / "in/free").read_text() == "inside"
    folder.rename("free", "other")
    assert (tmp_path / "in/other").read_text() == "inside"


def test_d1_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere(
    folder: Folder, tmp_path: Path
) -> None:
    """The race that a check before use loses."""
    (tmp_path / "in/swap").mkdir()
    (tmp_path / "link").symlink_to("out")
    over, swapped = threading.Event(), [0]

    def swap() -> None:
        while not over.is_set():
            (tmp_path / "in/swap").rename(tmp_path / "kept")
            (tmp_path / "link").rename(tmp_path / "in/swap")
            (tmp_path / "in/swap").rename(tmp_path / "link")
            (tmp_path / "kept").rename(tmp_path / "in/swap")
            swapped[0] += 1

    thread = threading.Thread(target=swap)
    thread.start()
    written = 0
    try:
        while swapped[0] < 400 or not written:  # however the two take turns
            assert thread.is_alive()
            try:
                os.close(folder.open(f"swap/f{written % 50}", os.O_WRONLY | os.O_CREAT))
                written += 1
            except OSError:
                continue
    finally:
        over.set()
        thread.join()
    assert written
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["secret"]
