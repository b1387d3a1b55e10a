"""Folders, secrets and the lock, before Django is there."""

import json
import os
import stat
import time
from pathlib import Path

import pytest

from common.making import Making, making_file, tell, told
from portal.server.identity import changeable, require_roots
from portal.server.main import main
from portal.server.paths import GENERATED, Paths, Refusal, running, take_lock
from portal.server.processes import turn_file


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    one = Paths(tmp_path / "var")
    one.prepare()
    return one


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_the_portal_keeps_is_closed_to_others(places: Paths) -> None:
    places.ensure_secrets()
    assert mode(places.secrets) == 0o600
    assert {mode(folder) for folder in places.private} == {0o700}
    assert mode(places.var) & 0o066 == 0  # others may pass through at most


def test_secrets_are_made_once_and_never_replaced(places: Paths) -> None:
    places.ensure_secrets()
    first = json.loads(places.secrets.read_text())
    assert set(first) == set(GENERATED)
    assert all(len(value) >= 43 for value in first.values())
    places.secrets.write_text(json.dumps({"BERTH_SECRET_KEY": first["BERTH_SECRET_KEY"], "x": "y"}))
    places.ensure_secrets()
    second = json.loads(places.secrets.read_text())
    assert second["BERTH_SECRET_KEY"] == first["BERTH_SECRET_KEY"]
    assert second["x"] == "y"
    assert second["BERTH_PROXY_TOKEN"] != first["BERTH_PROXY_TOKEN"]


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_a_corrupt_secrets_file_is_named_and_kept(places: Paths, text: str) -> None:
    places.secrets.write_text(text)
    with pytest.raises(Refusal, match=r"secrets\.json can't be read"):
        places.ensure_secrets()
    assert places.secrets.read_text() == text


def test_a_second_portal_on_the_same_folder_is_refused_with_the_number_of_the_first(
    places: Paths,
) -> None:
    held = take_lock(places)
    assert running(places) == os.getpid()
    with pytest.raises(Refusal, match=f"already runs .*process {os.getpid()}"):
        take_lock(places)
    os.close(held)
    assert running(places) is None
    os.close(take_lock(places))


def test_a_folder_that_can_not_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "var").write_text("a file where a folder should be")
    monkeypatch.setenv("BERTH_VAR", str(tmp_path / "var"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(["up"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("berth: ")
    assert "name another folder with BERTH_VAR" in said
    assert said.count("\n") == 1


def test_a_full_disk_is_one_sentence(places: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("usage", (), {"free": 5 * 2**20})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(Refusal, match="has 5 MiB left"):
        places.prepare()


def test_status_of_a_folder_without_a_portal_has_its_own_exit_code(
    places: Paths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BERTH_VAR", str(places.var))
    assert main(["status"]) == 3
    held = take_lock(places)
    assert main(["status"]) == 0
    assert "Berth runs on" in capsys.readouterr().out
    turn, past = turn_file(places.var), time.time() - 90
    os.utime(places.lock, (past, past))
    assert main(["status"]) == 1
    assert "The worker has made no turn for 9" in capsys.readouterr().out
    turn.touch()
    assert main(["status"]) == 0
    os.utime(turn, (past, past))
    assert main(["status"]) == 1
    os.close(held)


def test_root_makes_environments_only_where_others_have_no_hand(tmp_path: Path) -> None:
    mine, folder = {0, os.getuid()}, tmp_path / "var" / "environments"
    folder.mkdir(parents=True)
    assert changeable(folder, mine) is None
    assert changeable(folder, {12345}) in folder.parents
    folder.chmod(0o775)
    assert changeable(folder, mine) == folder
    folder.chmod(0o1777)  # sticky: others make their own there
    assert changeable(folder, mine) == folder
    folder.chmod(0o755)
    folder.parent.chmod(0o777)
    assert changeable(folder, mine) == folder.parent
    folder.parent.chmod(0o1771)  # what lies in there stays its owner's
    assert changeable(folder, mine) is None
    folder.rmdir()  # and anybody may put one there first
    assert changeable(folder, mine) == folder.parent
    link = tmp_path / "link"
    link.symlink_to(folder.parent)
    folder.mkdir()
    assert changeable(link / "environments", mine) is None
    folder.parent.chmod(0o777)
    assert changeable(link / "environments", mine) == folder.parent
    with pytest.raises(Refusal, match=r"chown root, chmod go-w.*BERTH_ENVIRONMENTS_DIR"):
        require_roots(folder)


def test_a_link_beside_what_is_told_of_an_environment_leads_nowhere(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("kept")
    file = making_file(tmp_path, "serving")
    file.with_name(f"{file.name}.new").symlink_to(theirs)
    tell(file, Making(7))
    assert (told(file), theirs.read_text()) == (Making(7), "kept")
    assert mode(file) == 0o644
