"""Backup and restore, as an administrator uses them."""

import itertools
import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import tarfile
import threading
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.support.migrated import head_start, postgres_database
from tests.support.portal import ROOT

pytestmark = pytest.mark.real


class Server:
    """The server's verbs on one folder."""

    def __init__(self, var: Path, **env: str) -> None:
        self.var = var
        names = ("BERTH_", "DJANGO_")
        plain = {k: v for k, v in os.environ.items() if not k.startswith(names)}
        self.env = {**plain, "BERTH_VAR": str(var), **env}

    def run(self, *words: str, module: str = "portal.server") -> "subprocess.CompletedProcess[str]":
        start = ["manage.py"] if module == "manage" else ["-m", module]
        return subprocess.run(
            [sys.executable, *start, *words],
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    @property
    def database(self) -> Path:
        return self.var / "berth.sqlite3"

    def fill(self, username: str) -> None:
        """A database with one person in it, and the secrets that belong to it."""
        self.var.mkdir(parents=True, exist_ok=True)
        (self.var / "secrets.json").write_text('{"BERTH_SECRET_KEY": "' + username * 20 + '"}')
        if "BERTH_DATABASE_URL" in self.env:
            done = self.run("migrate", "--skip-checks", "--verbosity", "0", module="manage")
            assert done.returncode == 0, done.stderr
        else:
            head_start(self.database, "portal.settings.dev")
        self.shell(f"User.objects.create(username={username!r})")

    def shell(self, code: str) -> str:
        done = self.run("shell", "-c", f"from accounts.models import User\n{code}", module="manage")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def users(self) -> str:
        question = "SELECT username FROM accounts_user ORDER BY username"
        if url := self.env.get("BERTH_DATABASE_URL"):
            with psycopg.connect(url) as database:
                rows = database.execute(question).fetchall()
        else:
            with closing(sqlite3.connect(self.database)) as file:
                rows = file.execute(question).fetchall()
        return ",".join(name for (name,) in rows)


@pytest.fixture(scope="module")
def with_alice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    server = Server(tmp_path_factory.mktemp("filled") / "var")
    server.fill("alice")
    return server.var


@pytest.fixture
def alices(tmp_path: Path, with_alice: Path) -> Server:
    tmp_path.chmod(0o755)
    server = Server(shutil.copytree(with_alice, tmp_path / "one"))
    home = server.var / "volumes" / "abc" / "work"
    home.mkdir(parents=True)
    (home / "notes.txt").write_text("mine")
    (home / "link").symlink_to("notes.txt")
    return server


def test_a_backup_restored_elsewhere_has_the_same_people_secrets_and_files(
    tmp_path: Path, alices: Server
) -> None:
    file = tmp_path / "berth.backup"
    done = alices.run("backup", str(file), "--homes")
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    other = Server(tmp_path / "two")
    done = other.run("restore", str(file))
    assert done.returncode == 0, done.stderr
    assert other.users() == "alice"
    assert (other.var / "secrets.json").read_text() == (alices.var / "secrets.json").read_text()
    home = other.var / "volumes" / "abc" / "work"
    assert (home / "notes.txt").read_text() == "mine"
    assert (home / "link").readlink() == Path("notes.txt")
    assert stat.S_IMODE(other.database.stat().st_mode) == 0o600


def test_folders_below_a_shared_one_keep_their_access_lists_and_group(
    tmp_path: Path, alices: Server
) -> None:
    """Without them the next person could not write into what others made in a shared volume."""
    from runtime.drivers.local import users

    top = alices.var / "volumes" / "abc" / "shared"
    users.make_shared(top, os.getegid())
    if not users.has_acl(top):
        pytest.skip("this disk keeps no access lists")
    inner = top / "inner"
    inner.mkdir()
    (inner / "file").write_text("x")
    file = tmp_path / "berth.backup"
    assert alices.run("backup", str(file), "--homes").returncode == 0
    other = Server(tmp_path / "two")
    done = other.run("restore", str(file))
    assert done.returncode == 0, done.stderr
    restored = other.var / "volumes" / "abc" / "shared"
    for name in (".", "inner", "inner/file"):
        assert _lists(restored / name) == _lists(top / name)
        assert (restored / name).stat().st_mode == (top / name).stat().st_mode
    assert users.has_acl(restored / "inner")
    (restored / "inner" / "new").mkdir()
    assert users.has_acl(restored / "inner" / "new")


def _lists(path: Path) -> dict[str, bytes]:
    return {name: os.getxattr(path, name) for name in os.listxattr(path) if "posix_acl" in name}


def test_homes_are_left_out_unless_asked_for(tmp_path: Path, alices: Server) -> None:
    file = tmp_path / "berth.backup"
    assert alices.run("backup", str(file)).returncode == 0
    with tarfile.open(file) as archive:
        names = archive.getnames()
    assert sorted(names) == ["database.sqlite3", "manifest.json", "secrets.json"]


def test_what_is_written_during_a_backup_does_not_damage_it(tmp_path: Path, alices: Server) -> None:
    over, written = threading.Event(), threading.Semaphore(0)

    def write() -> None:
        with closing(sqlite3.connect(alices.database, timeout=60, isolation_level=None)) as file:
            for number in itertools.count():
                row = (f"key{number}", "x" * 2000, "2099-01-01")
                file.execute("INSERT INTO django_session VALUES (?, ?, ?)", row)
                written.release()
                if over.wait(0.001):
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.acquire(timeout=60)
        file = tmp_path / "berth.backup"
        assert alices.run("backup", str(file)).returncode == 0
    finally:
        over.set()
        writer.join()
    other = Server(tmp_path / "two")
    done = other.run("restore", str(file))
    assert done.returncode == 0, done.stderr
    assert int(re.search(r"Ended: (\d+) sessions", done.stdout)[1]) > 0  # type: ignore[index]
    assert other.users() == "alice"


def test_restore_never_replaces_data_unasked_and_keeps_the_old(
    tmp_path: Path, alices: Server
) -> None:
    file = tmp_path / "berth.backup"
    assert alices.run("backup", str(file)).returncode == 0
    bobs = Server(tmp_path / "two")
    bobs.fill("bob")
    done = bobs.run("restore", str(file))
    assert done.returncode == 1
    assert "--yes replaces it" in done.stderr
    assert bobs.users() == "bob"
    assert bobs.run("restore", str(file), "--yes").returncode == 0
    assert bobs.users() == "alice"
    assert len(list((bobs.var / "backups").glob("replaced-*.sqlite3"))) == 1


def test_a_backup_never_overwrites_a_file(tmp_path: Path, alices: Server) -> None:
    file = tmp_path / "berth.backup"
    file.write_text("precious")
    done = alices.run("backup", str(file))
    assert done.returncode == 1
    assert "exists already" in done.stderr
    assert file.read_text() == "precious"


@pytest.mark.parametrize("damage", ["text", "truncated", "foreign"])
def test_a_file_that_is_no_whole_backup_changes_nothing(
    tmp_path: Path, alices: Server, damage: str
) -> None:
    file = tmp_path / "berth.backup"
    if damage == "text":
        file.write_text("hello")
    elif damage == "foreign":
        with tarfile.open(file, "w:gz") as archive:
            archive.add(ROOT / "manage.py", "manage.py")
    else:
        assert alices.run("backup", str(tmp_path / "whole")).returncode == 0
        whole = (tmp_path / "whole").read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
    done = alices.run("restore", str(file), "--yes")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert alices.users() == "alice"


def test_an_upgrade_keeps_a_copy_of_the_database_as_it_was(tmp_path: Path, alices: Server) -> None:
    code = (
        "from portal.server.copies import copy_before_upgrade\n"
        "from portal.server.paths import Paths\n"
        "import time\n"
        "for _ in range(5): copy_before_upgrade(Paths.from_environment()); time.sleep(1.01)"
    )
    alices.shell(code)
    kept = list((alices.var / "backups").glob("before-upgrade-*.sqlite3"))
    assert len(kept) == 3


def test_homes_that_are_there_are_kept_beside_and_no_link_in_them_is_followed(
    tmp_path: Path, alices: Server
) -> None:
    file = tmp_path / "berth.backup"
    assert alices.run("backup", str(file), "--homes").returncode == 0
    outside = tmp_path / "outside"
    outside.mkdir()
    work = alices.var / "volumes" / "abc" / "work"
    work.rename(tmp_path / "moved")
    work.symlink_to(outside)
    done = alices.run("restore", str(file), "--yes")
    assert done.returncode == 0, done.stderr
    assert (work / "notes.txt").read_text() == "mine"
    assert not work.is_symlink()
    assert list(outside.iterdir()) == []
    kept = next(alices.var.glob("volumes-replaced-*"))
    assert (kept / "abc" / "work").is_symlink()


@pytest.mark.parametrize("trick", ["parent", "through-a-link", "device", "hard-link"])
def test_a_crafted_backup_can_not_write_outside_the_homes(tmp_path: Path, trick: str) -> None:
    from portal.server.backup import checked_homes
    from portal.server.paths import Refusal

    file = tmp_path / "crafted.tar"
    with tarfile.open(file, "w") as archive:
        members = {
            "parent": [("volumes/../../etc/x", tarfile.REGTYPE, "")],
            "through-a-link": [
                ("volumes/a/l", tarfile.SYMTYPE, "/etc"),
                ("volumes/a/l/x", tarfile.REGTYPE, ""),
            ],
            "device": [("volumes/a/d", tarfile.CHRTYPE, "")],
            "hard-link": [("volumes/a/h", tarfile.LNKTYPE, "/etc/passwd")],
        }
        for name, kind, target in members[trick]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
    with tarfile.open(file) as archive, pytest.raises(Refusal):
        checked_homes(archive, "volumes")


PLAIN = """
import json
from django.db import connection
from notebooks.models import Workspace
from projects.models import Project
from volumes.models import Volume
project = Project.objects.create(slug="p", name="P")
of = {"project": project, "owner": User.objects.get()}
home = Volume.objects.create(**of, name="home")
rows = [Workspace.objects.create(**of, name=f"w{n}", home=home) for n in range(3)]
env = json.dumps({"KEY": "canary-env-Rb72" + "x" * 9000})  # more than one page of the file
with connection.cursor() as cursor:
    for row in rows:
        cursor.execute("UPDATE notebooks_workspace SET env = %s WHERE workload_ptr_id = %s", [env, row.pk])
"""


def test_a_backup_holds_no_variable_once_they_were_sealed(tmp_path: Path, alices: Server) -> None:
    """Neither in a row nor in the remains of what the rows were before."""

    def holds(name: str) -> bool:
        file = tmp_path / name
        assert alices.run("backup", str(file)).returncode == 0
        with tarfile.open(file) as archive:
            parts = [archive.extractfile(member) for member in archive if member.isfile()]
            return any(b"canary-env-Rb72" in part.read() for part in parts if part)

    secrets = alices.var / "secrets.json"
    keys = {"BERTH_CREDENTIAL_KEYS": "a key of the test alone"}
    secrets.write_text(json.dumps({**json.loads(secrets.read_text()), **keys}))
    alices.shell(PLAIN)
    assert holds("before")
    alices.shell("from credentials import rekey; rekey.seal_plain()")
    assert not holds("after")


def test_rotated_keys_open_old_secrets_and_nothing_stays_under_the_old_one(
    tmp_path: Path, alices: Server
) -> None:
    alices.shell(
        "from allauth.mfa.models import Authenticator\n"
        "from accounts.crypto import seal\n"
        "Authenticator.objects.create(user=User.objects.get(), type='totp',"
        " data={'secret': seal('the seed'), 'note': 'plain'})"
    )
    done = alices.run("keys", "rotate")
    assert done.returncode == 0, done.stderr
    assert "1 sealed secrets" in done.stdout
    known = json.loads((alices.var / "secrets.json").read_text())
    assert known["BERTH_SECRET_KEY_FALLBACKS"] == "alice" * 20
    del known["BERTH_SECRET_KEY_FALLBACKS"]
    (alices.var / "secrets.json").write_text(json.dumps(known))
    said = alices.shell(
        "from allauth.mfa.models import Authenticator\n"
        "from accounts.crypto import unseal\n"
        "data = Authenticator.objects.get().data; print(unseal(data['secret']), data['note'])"
    )
    assert said.strip().endswith("the seed plain")


def test_a_key_from_the_environment_is_not_rotated_behind_its_back(alices: Server) -> None:
    alices.env["BERTH_SECRET_KEY"] = "x" * 60
    done = alices.run("keys", "rotate")
    assert done.returncode == 1
    assert "set in the environment" in done.stderr


@pytest.mark.postgres
@pytest.mark.long("the same on SQLite beside it")
def test_a_round_trip_on_postgresql(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with postgres_database() as first, postgres_database() as second:
        one = Server(tmp_path / "one", BERTH_DATABASE_URL=first)
        one.fill("alice")
        file = tmp_path / "berth.backup"
        done = one.run("backup", str(file))
        assert done.returncode == 0, done.stderr
        two = Server(tmp_path / "two", BERTH_DATABASE_URL=second)
        done = two.run("restore", str(file))
        assert done.returncode == 0, done.stderr
        assert two.users() == "alice"


def test_a_restore_ends_every_way_in_holds_orphans_and_is_written_down(
    tmp_path: Path, alices: Server
) -> None:
    alices.shell(
        "from accounts.models import ApiToken, SshKey\n"
        "from django.contrib.sessions.backends.db import SessionStore\n"
        "from runtime.models import Installation\n"
        "alice = User.objects.get()\n"
        "User.objects.create(username='mallory')\n"
        "ApiToken.objects.create(user=alice, name='old', prefix='berth_x', digest='d')\n"
        "SshKey.objects.create(user=alice, name='k', public_key='p', fingerprint='f')\n"
        "Installation.objects.create()\n"
        "store = SessionStore(); store['a'] = 1; store.save()"
    )
    file = tmp_path / "berth.backup"
    assert alices.run("backup", str(file)).returncode == 0
    alices.shell("User.objects.filter(username='mallory').update(is_active=False)")
    done = alices.run("restore", str(file), "--yes")
    assert done.returncode == 0, done.stderr
    assert "These may sign in again, and could not before: mallory." in done.stdout
    assert "1 sessions" in done.stdout
    assert "1 tokens" in done.stdout
    said = alices.shell(
        "from accounts.models import ApiToken, SshKey\n"
        "from django.contrib.sessions.models import Session\n"
        "from events.models import Event\n"
        "from runtime.models import Installation\n"
        "told = Event.objects.get(verb='installation.restored')\n"
        "own = Installation.objects.get()\n"
        "print(Session.objects.count(), ApiToken.objects.filter(revoked_at=None).count(),"
        " SshKey.objects.count(), own.held_why, told.data['can_sign_in_again'], own.uid)"
    )
    *counts, uid = said.strip().splitlines()[-1].split()
    assert counts == ["0", "0", "0", "restored", "['mallory']"]
    assert (alices.var / "installation").read_text().strip() == uid


def test_a_restore_leaves_tokens_and_keys_where_somebody_says_so(
    tmp_path: Path, alices: Server
) -> None:
    alices.shell(
        "from accounts.models import ApiToken\n"
        "ApiToken.objects.create(user=User.objects.get(), name='old', prefix='b', digest='d')"
    )
    file = tmp_path / "berth.backup"
    assert alices.run("backup", str(file)).returncode == 0
    other = Server(tmp_path / "two")
    done = other.run("restore", str(file), "--keep-access")
    assert done.returncode == 0, done.stderr
    assert "are good again" in done.stdout
    assert "may come in again" in done.stdout
    left = "from accounts.models import ApiToken; print(ApiToken.objects.get().revoked_at)"
    assert other.shell(left).strip().splitlines()[-1] == "None"


def test_orphans_are_shown_and_released_only_with_a_yes(tmp_path: Path, alices: Server) -> None:
    alices.shell(
        "from runtime.models import Installation\n"
        "from common.clock import now\n"
        "Installation.objects.create(held_why='restored', held_since=now(), unknown=[dict("
        "cluster='east', uid='u1', kind='workspace', seen='ready', whose='own')])"
    )
    shown = alices.run("orphans")
    assert shown.returncode == 0, shown.stderr
    assert "east  workspace  u1  ready  made by this installation" in shown.stdout
    assert "Held since" in shown.stdout
    asked = alices.run("orphans", "--collect")
    assert asked.returncode == 1
    assert "This ends 1 of the above" in asked.stderr
    assert alices.run("orphans", "--collect", "--yes").returncode == 0
    assert "Nothing is held" in alices.run("orphans").stdout
    event = (
        "from events.models import Event\n"
        "print(Event.objects.get(verb='installation.orphans-released').data['held'])"
    )
    assert alices.shell(event).strip().splitlines()[-1] == "restored"
