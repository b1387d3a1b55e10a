"""The provisioner touches nothing outside its folder, whatever a volume says."""

import os
from pathlib import Path
from typing import Any

import pytest

from devcluster.provisioner import Directories, RefusedError, Wish, wish

BASE = Path("/srv/volumes")


def volume(place: str, *, path: str | None = None, owner: str = "1000") -> dict[str, Any]:
    annotations = {"berth.dev/directory": place, "berth.dev/owner-uid": owner}
    return {
        "metadata": {"name": "v", "annotations": annotations},
        "spec": {"hostPath": {"path": path or place}},
    }


def test_a_volume_without_the_annotation_asks_for_nothing() -> None:
    assert wish({"metadata": {"name": "v"}, "spec": {"hostPath": {"path": "/etc"}}}, BASE) is None


def test_a_plain_name_under_the_base_is_given() -> None:
    assert wish(volume("/srv/volumes/abc-1"), BASE) == Wish("abc-1", 1000)


@pytest.mark.parametrize(
    "place",
    [
        "/srv/volumes/..",
        "/srv/volumes/../etc",
        "/srv/volumes/a/b",
        "/srv/volumes/",
        "/srv/volumes/.hidden",
        "/srv/volumes/.wiping-x",
        "/srv/volumes2/a",
        "/etc",
        "a",
        "",
        "/srv/volumes/a\n",
    ],
)
def test_any_other_place_is_refused(place: str) -> None:
    with pytest.raises(RefusedError):
        wish(volume(place), BASE)


def test_a_volume_whose_path_is_another_is_refused() -> None:
    with pytest.raises(RefusedError):
        wish(volume("/srv/volumes/a", path="/etc"), BASE)


@pytest.mark.parametrize("owner", ["", "0", "-1", "root", "4294967296", "1e3", "٣"])
def test_an_owner_that_is_no_ordinary_user_is_refused(owner: str) -> None:
    with pytest.raises(RefusedError):
        wish(volume("/srv/volumes/a", owner=owner), BASE)


def test_a_directory_is_closed_to_others_and_made_once(tmp_path: Path) -> None:
    directories = Directories(tmp_path / "base")
    wanted = Wish("a", os.getuid())
    assert directories.make(wanted)
    assert not directories.make(wanted)
    assert (tmp_path / "base/a").stat().st_mode & 0o777 == 0o700


def test_what_lies_under_the_name_of_a_directory_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    directories = Directories(tmp_path / "base")
    (tmp_path / "base/a").symlink_to(outside)
    assert not directories.make(Wish("a", os.getuid()))
    assert outside.stat().st_mode & 0o777 == 0o755


def test_wiping_removes_links_and_not_what_they_lead_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    directories = Directories(tmp_path / "base")
    directories.make(Wish("a", os.getuid()))
    (tmp_path / "base/a/link").symlink_to(outside)
    (tmp_path / "base/a/file").write_text("secret")
    directories.wipe("a")
    directories.wipe("a")
    assert sorted(p.name for p in (tmp_path / "base").iterdir()) == [".berth-devcluster"]
    assert (outside / "kept").exists()


def test_wiping_needs_no_stack(tmp_path: Path) -> None:
    directories = Directories(tmp_path / "base")
    directories.make(Wish("a", os.getuid()))
    folder = os.open(tmp_path / "base/a", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    directories.wipe("a")
    assert sorted(p.name for p in (tmp_path / "base").iterdir()) == [".berth-devcluster"]


def test_a_wipe_that_was_cut_short_is_finished_at_the_next_start(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / ".wiping-a-1").mkdir()
    (base / ".wiping-a-1/file").touch()
    Directories(base)
    assert list(base.iterdir()) == []
