"""What is written goes to the disk while it is written, and its errors are told."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from dataplane.files import changing, tree
from dataplane.files.tree import STEP, Behind, Tree
from dataplane.files.uploads import Uploads


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What is asked of the kernel: where from, and how."""
    found: list[tuple[int, int]] = []

    class Libc:
        @staticmethod
        def sync_file_range(_fd: int, start: object, _count: object, how: object) -> int:
            found.append((start.value // STEP, how.value))  # type: ignore[attr-defined]
            return 0

    monkeypatch.setattr(tree, "_libc", Libc)
    return found


def test_two_steps_wait_at_most(asked: list[tuple[int, int]]) -> None:
    with Path(os.devnull).open("wb") as file:
        one = Behind(file.fileno(), 0)
        for _ in range(12):
            one.wrote(STEP // 4)
    assert asked == [(0, 2), (1, 2), (0, 7), (2, 2), (1, 7)]


def test_an_upload_and_a_copy_go_out_while_they_arrive(
    tmp_path: Path, asked: list[tuple[int, int]]
) -> None:
    tree, size = Tree(tmp_path), 2 * STEP
    uploads = Uploads(tree)
    body = io.BytesIO(bytes(size))
    said = {"path": "a", "size": size}
    uploads.put(said, person="p", room=None, body=body, check="")
    assert asked == [(0, 2), (1, 2), (0, 7)]
    (tmp_path / "to").mkdir()
    *_, last = changing.copy(tree, ["a"], "to", "refuse", None)
    assert last["done"]["bytes"] == size
    assert asked[3:] == asked[:3]


@pytest.mark.parametrize(
    ("number", "told"), [(errno.EIO, True), (errno.ENOSPC, True), (errno.ENOSYS, False)]
)
def test_what_the_disk_refuses_is_an_error_here(
    monkeypatch: pytest.MonkeyPatch, number: int, told: bool
) -> None:
    """The flush at the end would not tell it a second time."""

    class Libc:
        @staticmethod
        def sync_file_range(*_words: object) -> int:
            return -1

    monkeypatch.setattr(tree, "_libc", Libc)
    monkeypatch.setattr(tree.ctypes, "get_errno", lambda: number)
    one = Behind(0, 0)
    if not told:
        one.wrote(STEP)
        return
    with pytest.raises(OSError) as error:
        one.wrote(STEP)
    assert error.value.errno == number


def test_the_kernel_takes_it(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb", buffering=0) as file:
        one = Behind(file.fileno(), 0)
        for _ in range(4):
            file.write(bytes(STEP))
            one.wrote(STEP)
    assert (tmp_path / "a").stat().st_size == 4 * STEP
