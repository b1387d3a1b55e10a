"""The databases that tests begin with are whole, whatever is cut off or done at the same time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support import migrated

WHOLE = b"a whole database"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "made.sqlite3"
    path.write_bytes(WHOLE)
    monkeypatch.setattr(migrated, "kept", lambda _settings: path)
    return path


def test_a_copy_that_was_cut_off_leaves_nothing(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(_origin: Any, target: Any) -> None:
        Path(target).write_bytes(WHOLE[:5])
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "copyfile", cut_off)
    with pytest.raises(KeyboardInterrupt):
        migrated.head_start(tmp_path / "of-tests" / "db", "any")
    assert list((tmp_path / "of-tests").iterdir()) == []


def test_one_that_another_run_replaced_meanwhile_is_asked_for_again(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([tmp_path / "removed.sqlite3", made])
    monkeypatch.setattr(migrated, "kept", lambda _settings: next(found))
    migrated.head_start(tmp_path / "db", "any")
    assert (tmp_path / "db").read_bytes() == WHOLE


def test_templates_of_other_sources_go_and_nothing_else() -> None:
    """One that is in use stays."""
    import psycopg

    class Admin:
        def __init__(self) -> None:
            self.asked: list[str] = []

        def execute(self, query: str, words: tuple[str, ...] = ()) -> Any:
            self.asked.append(query)
            if words:
                assert words == ("^berth_portal_settings_test_[0-9a-f]{16}$",)
                return self
            if "busy" in query:
                raise psycopg.errors.ObjectInUse
            return self

        def fetchall(self) -> list[tuple[str]]:
            return [("busy",), ("old",)]

    admin: Any = Admin()
    migrated._drop_older(admin, "portal.settings.test")
    assert admin.asked[-1] == 'DROP DATABASE IF EXISTS "old"'
