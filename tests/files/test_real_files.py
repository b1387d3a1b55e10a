"""Files of a home from the command line: a whole portal, supervisor and gate."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.cutting import bad_line
from tests.support.dataplane import dataplane_environment
from tests.support.portal import ROOT, Portal
from tests.support.zips import Unmarked

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

PIECE = 32 << 20  # what the command line sends at once
PEOPLE = """
from accounts.models import User; from accounts.principal import Principal
from projects.models import Membership, Project
from volumes.services.create import home_ensure, project_volume_ensure
project = Project.objects.get(slug='demo')
for name in ('ann', 'ben'):
    user = User(username=name, email=f'{name}@example.org'); user.set_unusable_password()
    user.save(); Membership.objects.create(project=project, user=user, role='member')
    who = Principal(user=user)
    home_ensure(principal=who, project=project, owner=user)
row = project_volume_ensure(principal=who, project=project, cluster_key='local')
answer = str(row.uid)
"""


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    dataplane_environment()
    running = Portal({"BERTH_EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend"})
    try:
        running.start()
        running.shared = running.shell(PEOPLE)  # type: ignore[attr-defined]
        yield running
    finally:
        running.close()


class Berth:
    """``berth`` as a person has it."""

    def __init__(self, portal: Portal, user: str, folder: Path) -> None:
        self.token = portal.token(user)
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("BERTH_")},
            "PYTHONPATH": str(ROOT / "cli"),
            "BERTH_URL": portal.url,
            "BERTH_TOKEN": self.token,
            "BERTH_PROJECT": "demo",
            "BERTH_CONFIG": str(folder / "none.json"),
        }

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "berth_cli", *map(str, words)],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str | Path, code: int = 0) -> str:
        running = self.start(*words)
        out, errors = running.communicate(timeout=480)
        assert running.returncode == code, (running.returncode, out, errors)
        return out + errors


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_folders_go_up_and_come_down_as_they_were(portal: Portal, tmp_path: Path) -> None:
    ann = Berth(portal, "ann", tmp_path)
    source = tmp_path / "source"
    (source / "a/b").mkdir(parents=True)
    (source / "empty").mkdir()
    (source / "a/b/ü 漢.txt").write_text("text")
    (source / "a/large.bin").write_bytes(os.urandom(20 << 20))
    (source / "link").symlink_to("/etc/passwd")
    said = ann("volumes", "upload", "shared", source)
    assert "Left out" in said
    listed = ann("volumes", "files", "shared:source/a", "-o", "json")
    assert '"large.bin"' in listed
    assert "ü 漢.txt" in ann("volumes", "files", "shared", "--search", "漢")
    ann("volumes", "upload", "shared", source, code=5)  # all of it is there
    ann("volumes", "upload", "shared", source, "--replace")
    ann("volumes", "download", "shared:source", tmp_path / "back")
    found = tree(tmp_path / "back/source")
    (source / "link").unlink()
    assert found == tree(source)
    assert (tmp_path / "back/source/empty").is_dir()
    ann("volumes", "download", "shared:source/none", tmp_path, code=4)


def test_d5_an_archive_is_unpacked_beside_the_data(portal: Portal, tmp_path: Path) -> None:
    ann = Berth(portal, "ann", tmp_path)
    archive = tmp_path / "set.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("a/ü 漢.txt", "text")
        made.writestr("../out", "x")
        made.writestr(Unmarked("画像.txt".encode("cp932")), "one")
    ann("volumes", "upload", "shared:packed", archive)
    said = ann("volumes", "extract", "shared:packed/set.zip")
    assert "packed/set" in said
    assert "Left out (bad-path): ../out" in said
    assert "read as Shift-JIS" in said
    ann("volumes", "download", "shared:packed/set", tmp_path / "back")
    assert tree(tmp_path / "back/set") == {"a/ü 漢.txt": b"text", "画像.txt": b"one"}
    (tmp_path / "words.zip").write_text("no archive")
    ann("volumes", "upload", "shared:packed", tmp_path / "words.zip")
    assert "zip or tar" in ann("volumes", "extract", "shared:packed/words.zip", code=5)


def test_a_killed_upload_goes_on_where_it_was(portal: Portal, tmp_path: Path) -> None:
    ann = Berth(portal, "ann", tmp_path)
    file = tmp_path / "big.bin"
    file.write_bytes(os.urandom(1 << 20) * 300)
    ann("volumes", "files", "shared")  # open
    http = httpx.Client(headers={"Authorization": f"Bearer {ann.token}"}, timeout=60)
    where = portal.api(ann.token).get(f"projects/demo/volumes/{portal.shared}/files").json()["url"]  # type: ignore[attr-defined]
    direct = ann.env
    with bad_line() as line:
        line.pause_s = 0.005  # all of it takes half a minute: it is under way when it is looked at
        ann.env = {**direct, "HTTP_PROXY": line.url, "NO_PROXY": ""}
        running = ann.start("volumes", "upload", "shared", file)
        deadline, offset = time.monotonic() + 120, 0
        while time.monotonic() < deadline and offset <= PIECE:
            time.sleep(0.1)
            waiting = http.get(f"{where}/uploads").json()["uploads"]
            offset = waiting[0]["offset"] if waiting else 0
        running.kill()
        running.wait()
    ann.env = direct
    assert PIECE < offset < file.stat().st_size

    # What had not arrived whole is taken back as soon as the server sees that nobody sends.
    def left() -> int:
        (one,) = http.get(f"{where}/uploads").json()["uploads"]
        return int(one["offset"])

    deadline = time.monotonic() + 120
    while left() % PIECE:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert left() >= PIECE
    ann("volumes", "upload", "shared", file)
    assert http.get(f"{where}/uploads").json()["uploads"] == []
    got = http.get(f"{where}/file", params={"path": "big.bin"}, headers={"Range": "bytes=-100"})
    assert got.content == file.read_bytes()[-100:]
    assert http.head(f"{where}/file?path=big.bin").headers["content-length"] == str(300 << 20)


def test_a_broken_download_goes_on_where_the_line_was_cut(portal: Portal, tmp_path: Path) -> None:
    ann, file, target = _large(portal, tmp_path, "cut.bin")
    with bad_line() as line:
        ann.env |= {"HTTP_PROXY": line.url, "NO_PROXY": ""}
        line.cuts = [10 << 20, 5 << 20, None]
        ann("volumes", "download", "shared:cut.bin", target)
        ann("volumes", "download", "shared:cut.bin", target, code=5)  # it is there already
    assert (target / "cut.bin").read_bytes() == file.read_bytes()
    assert [p.name for p in target.iterdir()] == ["cut.bin"]
    begins = [int(asked.rstrip("-")) for asked in line.ranges]
    heads = 64 << 10  # the answers' own heads are cut too
    assert begins[0] == 0
    assert (10 << 20) - heads < begins[1] <= 10 << 20
    assert (15 << 20) - 2 * heads < begins[2] <= 15 << 20


def test_a_killed_download_leaves_no_file_of_that_name_and_a_changed_one_begins_anew(
    portal: Portal, tmp_path: Path
) -> None:
    ann, file, target = _large(portal, tmp_path, "killed.bin")
    with bad_line() as line:
        ann.env |= {"HTTP_PROXY": line.url, "NO_PROXY": ""}
        line.cuts, line.holds = [10 << 20], True
        _kill_in_the_middle(ann, "shared:killed.bin", target)
        (part,) = target.iterdir()
        assert part.name.endswith(".part")
        have = part.stat().st_size
        line.go_on.set()
        ann("volumes", "download", "shared:killed.bin", target)
        assert [p.name for p in target.iterdir()] == ["killed.bin"]
        assert (target / "killed.bin").read_bytes() == file.read_bytes()
        assert line.ranges[1] == f"{have}-"

        line.cuts, line.go_on = [10 << 20], threading.Event()
        (target / "killed.bin").unlink()
        _kill_in_the_middle(ann, "shared:killed.bin", target)
        line.go_on.set()
        file.write_bytes(os.urandom(20 << 20))
        ann("volumes", "upload", "shared", file, "--replace")
        ann("volumes", "download", "shared:killed.bin", target)
        assert line.ranges[-1] == "0-"
    assert (target / "killed.bin").read_bytes() == file.read_bytes()
    assert [p.name for p in target.iterdir()] == ["killed.bin"]


def _large(portal: Portal, tmp_path: Path, name: str) -> tuple[Berth, Path, Path]:
    ann = Berth(portal, "ann", tmp_path)
    file, target = tmp_path / name, tmp_path / "down"
    file.write_bytes(os.urandom(40 << 20))
    target.mkdir()
    ann("volumes", "upload", "shared", file)
    return ann, file, target


def _kill_in_the_middle(ann: Berth, place: str, target: Path) -> None:
    """Kill the program when all that the line lets through has come."""
    running = ann.start("volumes", "download", place, target)
    deadline = time.monotonic() + 120
    while sum(p.stat().st_size for p in target.glob(".*.part")) < (10 << 20) - (64 << 10):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.kill()
    running.wait()
    assert not [p for p in target.iterdir() if not p.name.startswith(".")]


def test_a_home_is_seen_by_its_owner_alone(portal: Portal, tmp_path: Path) -> None:
    ann, ben = Berth(portal, "ann", tmp_path), Berth(portal, "ben", tmp_path)
    (tmp_path / "private.txt").write_text("mine")
    ann("volumes", "upload", "home-ann", tmp_path / "private.txt")
    assert "private.txt" in ann("volumes", "files", "home-ann")
    said = ben("volumes", "files", "home-ann", code=4)
    assert re.search("private", said)
    # As the operating system sees it: a folder of a user that is not ben's.
    (uid,) = {p.stat().st_uid for p in portal.var.glob("volumes/*/private.txt")}
    assert os.geteuid() or uid


def test_what_is_shared_is_written_by_every_member(portal: Portal, tmp_path: Path) -> None:
    ann, ben = Berth(portal, "ann", tmp_path), Berth(portal, "ben", tmp_path)
    (tmp_path / "of-ann.txt").write_text("ann")
    ann("volumes", "upload", "shared:both", tmp_path / "of-ann.txt")
    (tmp_path / "of-ann.txt").write_text("ben")
    ben("volumes", "upload", "shared:both", tmp_path / "of-ann.txt", "--replace")
    ann("volumes", "download", "shared:both/of-ann.txt", tmp_path / "got.txt")
    assert (tmp_path / "got.txt").read_text() == "ben"
