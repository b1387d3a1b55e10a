"""What was an installation is never silently a new one: one sentence, an exit code, nothing touched.

A start is what ``berth up`` does before it opens a port, on a folder of its own.
"""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from portal.server.main import main
from portal.server.paths import DATA_HERE, UNLIKE, Paths
from portal.server.up import begun_plan
from tests.support.migrated import beginning
from tests.support.portal import ROOT
from tests.support.ports import free_ports

pytestmark = pytest.mark.real


class Here:
    """An installation in a folder."""

    def __init__(self, var: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.places = Paths(var)
        self.database = var / "berth.sqlite3"
        self._capfd = capfd

    def start(self) -> tuple[int, str]:
        """Return the exit code (0: it goes on) and what was said."""
        self.places.prepare()
        self._capfd.readouterr()
        try:
            begun_plan(self.places, insecure_http=False)
        except SystemExit as ended:
            return int(str(ended.code)), self._capfd.readouterr().err
        return 0, self._capfd.readouterr().err

    def ask(self, question: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.database)) as file:
            return file.execute(question).fetchall()

    def change(self, statement: str) -> None:
        with closing(sqlite3.connect(self.database, isolation_level=None)) as file:
            file.execute(statement)

    @property
    def uid(self) -> str:
        return self.places.installation.read_text().strip()

    def all_files(self) -> dict[str, bytes]:
        kept = ("berth.sqlite3", "secrets.json", "installation", "volumes", "workloads")
        found = [p for name in kept for p in (self.places.var / name, *self._below(name))]
        return {str(p): p.read_bytes() for p in found if p.is_file()}

    def _below(self, name: str) -> list[Path]:
        return list((self.places.var / name).rglob("*"))


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_HERE, raising=False)
    for name in ("BERTH_SECRET_KEY", "BERTH_SECRET_KEY_FALLBACKS", "DJANGO_SETTINGS_MODULE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one that was started once and has somebody's files."""
    var = tmp_path_factory.mktemp("begun") / "var"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTH_VAR", str(var))
        patch.setenv("BERTH_PORT", str(free_ports(8)))
        patch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
        patch.delenv("BERTH_SECRET_KEY", raising=False)
        beginning(var)
        Paths(var).prepare()
        begun_plan(Paths(var), insecure_http=False)
    (var / "volumes" / "abc").mkdir(parents=True)
    (var / "volumes" / "abc" / "notes.txt").write_text("mine")
    (var / "workloads" / "records" / "one").mkdir(parents=True)
    return var


@pytest.fixture
def here(
    begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Here:
    var = shutil.copytree(begun, tmp_path / "var")
    monkeypatch.setenv("BERTH_VAR", str(var))
    monkeypatch.setenv("BERTH_PORT", str(free_ports(8)))
    return Here(var, capfd)


def test_a_first_start_records_which_installation_it_is_and_the_next_finds_it(here: Here) -> None:
    [(uid,)] = here.ask("SELECT uid FROM runtime_installation")
    assert here.uid.replace("-", "") == str(uid).replace("-", "")
    before = here.uid
    assert here.start() == (0, "")
    assert here.uid == before


def database_gone(here: Here) -> None:
    here.database.unlink()


def database_empty(here: Here) -> None:
    here.database.write_bytes(b"")


def database_gone_and_no_record(here: Here) -> None:
    here.database.unlink()
    here.places.installation.unlink()


def database_migrated_and_empty(here: Here) -> None:
    here.database.unlink()
    beginning(here.places.var)
    here.change("PRAGMA journal_mode=WAL")  # as any look at it leaves it


def database_of_another(here: Here) -> None:
    here.change("UPDATE runtime_installation SET uid = '0123456789abcdef0123456789abcdef'")


def secrets_gone(here: Here) -> None:
    here.places.secrets.unlink()


def secrets_without_a_key(here: Here) -> None:
    here.places.secrets.write_text("{}")


def secrets_of_another(here: Here) -> None:
    known = json.loads(here.places.secrets.read_text())
    here.places.secrets.write_text(json.dumps({**known, "BERTH_SECRET_KEY": "x" * 64}))


def secrets_gone_from_one_of_before(here: Here) -> None:
    here.change("DELETE FROM runtime_installation")
    here.places.installation.unlink()
    here.places.secrets.unlink()


def record_gone(here: Here) -> None:
    here.places.installation.unlink()


@pytest.mark.parametrize(
    ("lose", "said"),
    [
        (database_gone, "missing or empty"),
        (database_empty, "missing or empty"),
        (database_gone_and_no_record, "missing or empty"),
        (database_migrated_and_empty, "missing or empty"),
        (database_of_another, "that of installation 01234567-89ab"),
        (secrets_gone, "secrets are missing"),
        (secrets_without_a_key, "secrets are missing"),
        (secrets_of_another, "another installation's"),
        (secrets_gone_from_one_of_before, "secrets are missing"),
        (record_gone, "Put the file back"),
    ],
)
def test_what_was_an_installation_is_never_begun_anew(
    here: Here, lose: Callable[[Here], None], said: str
) -> None:
    lose(here)
    before = here.all_files()
    code, told = here.start()
    assert code == UNLIKE
    assert said in told
    assert "Nothing was changed." in told
    assert told.count("\n") == 1
    assert here.all_files() == before


def test_one_of_before_there_were_marks_is_given_one_without_a_word(here: Here) -> None:
    here.change("DELETE FROM runtime_installation")
    here.places.installation.unlink()
    assert here.start() == (0, "")
    [(uid, held)] = here.ask("SELECT uid, held_why FROM runtime_installation")
    assert here.uid.replace("-", "") == uid
    assert held == ""


def test_an_older_copy_of_the_database_removes_nothing_by_itself(here: Here) -> None:
    """One of before there were marks, in a folder that has one."""
    before = here.uid
    here.change("DELETE FROM runtime_installation")
    assert here.start() == (0, "")
    assert here.uid == before
    assert here.ask("SELECT held_why FROM runtime_installation") == [("older",)]


def test_a_key_that_was_changed_on_purpose_is_proved_by_the_one_before(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = json.loads(here.places.secrets.read_text())["BERTH_SECRET_KEY"]
    monkeypatch.setenv("BERTH_SECRET_KEY", "another one " * 5)
    assert here.start()[0] == UNLIKE
    monkeypatch.setenv("BERTH_SECRET_KEY_FALLBACKS", old)
    assert here.start() == (0, "")
    monkeypatch.delenv("BERTH_SECRET_KEY_FALLBACKS")
    assert here.start() == (0, "")


def go_on_anew() -> None:
    words = [sys.executable, "-m", "portal.server", "anew", "--yes"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_lost_database_is_begun_anew_only_when_somebody_says_so(
    here: Here, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = here.uid
    here.database.unlink()
    assert main(["anew"]) == 1
    said = capfd.readouterr()
    assert "Volumes, homes and what runs stay as they are." in said.out
    assert not here.database.exists()
    beginning(here.places.var)  # a head start: the migrations take long
    go_on_anew()
    assert here.uid != before
    assert (here.places.var / "volumes" / "abc" / "notes.txt").read_text() == "mine"
    assert here.start() == (0, "")


def test_lost_secrets_are_made_anew_only_when_somebody_says_so(here: Here) -> None:
    before = here.uid
    here.places.secrets.write_text("no JSON")
    go_on_anew()
    assert here.uid == before
    assert [p.read_text() for p in here.places.var.glob("secrets-unreadable-*")] == ["no JSON"]
    assert here.ask("SELECT held_why FROM runtime_installation") == [("anew",)]
    assert here.start() == (0, "")
