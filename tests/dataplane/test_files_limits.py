"""The bounds of the file browser's server that take too long to reach for real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dataplane.files import asking, listing, zipping
from dataplane.files import tree as walking
from dataplane.files.memory import Share
from dataplane.files.names import Refusal
from dataplane.files.tree import Tree
from dataplane.safepath import Folder

LONG = 600  # seconds: a bound that no test here reaches


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for number in range(30):
        (tmp_path / f"f{number:02}").write_text("x")
    return Tree(tmp_path)


def page(tree: Tree, **asked: Any) -> dict[str, Any]:
    said = {"sort": "name", "descending": False, "offset": 0, "limit": 100, **asked}
    with Folder.at(tree.root) as top, Share() as held:
        return listing.Listings().page(top, "", held, **said)


def test_more_entries_than_are_read_are_said(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_READ", 10)
    said = page(tree)
    assert (said["total"], said["truncated"]) == (10, True)


def test_beyond_some_number_names_are_in_plain_order(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree.root / "run 10").write_text("")
    (tree.root / "run 2").write_text("")
    assert [e["name"] for e in page(tree)["entries"]][-2:] == ["run 2", "run 10"]
    monkeypatch.setattr(listing, "NATURAL_UP_TO", 5)
    assert [e["name"] for e in page(tree)["entries"]][-2:] == ["run 10", "run 2"]


def test_an_archive_of_too_many_files_breaks_off(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipping, "MOST_ENTRIES", 10)
    with Folder.at(tree.root) as top, pytest.raises(Refusal, match="too many"):
        list(zipping.archive(top, [""]))


def test_a_question_that_takes_too_long_says_that_it_is_not_whole(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Always:
        def __init__(self, *_words: Any) -> None:
            """Time is up at every look."""

        def __call__(self) -> bool:
            return True

    monkeypatch.setattr(asking, "Beat", Always)
    monkeypatch.setattr(asking, "_ends", lambda _seconds: 0.0)
    for asked in (
        asking.usage(tree, "", seconds=1),
        asking.search(tree, "", "f", seconds=1),
        asking.count(tree, ["f01"], seconds=1),
    ):
        *progress, last = asked
        assert progress
        assert last["done"]["complete"] is False


def test_more_folders_than_there_is_memory_for_are_not_passed_over_in_silence(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        (tree.root / f"{number:02}{'d' * 200}").mkdir()
    monkeypatch.setattr(walking, "MOST_WAITING", 4000)
    for asked in (
        asking.usage(tree, "", seconds=LONG),
        asking.search(tree, "", "f", seconds=LONG),
    ):
        *_progress, last = asked
        assert last["done"]["complete"] is False
    (tree.root / "to").mkdir()
    with Folder.at(tree.root) as top:
        assert b"too many folders" in b"".join(zipping.archive(top, [""]))


def test_the_largest_of_many_are_told_and_all_are_summed(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever order they come in; what has no line of its own is counted."""
    monkeypatch.setattr(asking, "MOST_CHILDREN", 5)
    for name in ("f07", "f23", "a", "z"):
        (tree.root / name).write_bytes(b"x" * 100_000)
    for number in range(8):
        (tree.root / f"d{number}").mkdir()
        (tree.root / f"d{number}" / "below").write_bytes(b"x" * 5000)
    *_progress, last = asking.usage(tree, "", seconds=LONG)
    told, largest = last["done"], last["done"]["entries"][:4]
    assert {one["name"] for one in largest} == {"f07", "f23", "a", "z"}
    assert {one["kind"] for one in largest} == {"file"}
    assert sum(one["kind"] == "folder" for one in told["entries"]) == 5
    assert len(told["entries"]) + told["more"] == 32 + 8
    assert (told["total"]["files"], told["total"]["folders"]) == (32 + 8, 8)
    assert told["total"]["bytes"] == 28 + 4 * 100_000 + 8 * 5000


def test_so_many_hits_are_enough(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST_HITS", 5)
    *_progress, last = asking.search(tree, "", "f", seconds=LONG)
    assert (last["done"]["hits"], last["done"]["complete"]) == (5, False)
