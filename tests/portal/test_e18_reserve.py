"""E18: the last byte is taken by others, and stopping, signing in and reading go on.

On a file system of a few MiB of the test's own (root), with the portal's database on it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from common import disk
from common.clock import now
from tests.support import driving
from tests.support.migrated import beginning

MIB = 2**20
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def reserve(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A folder of the portal's own and a disk that says what the test says."""
    settings.BERTH_VAR = tmp_path
    settings.BERTH_DISK_FLOOR_MIB, settings.BERTH_DISK_RESERVE_MIB = 100, 24
    monkeypatch.setattr(disk.connection, "vendor", "sqlite", raising=False)
    return lambda free: monkeypatch.setattr(disk, "free_mib", lambda: free)


def held(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in (folder / "reserve").glob("*")) // MIB


def test_the_reserve_is_taken_while_there_is_room_and_given_back_in_pieces(
    reserve: Any, tmp_path: Path
) -> None:
    reserve(101)
    disk.keep_reserve()
    assert held(tmp_path) == 0  # it is never the reason why nothing new begins
    reserve(500)
    disk.keep_reserve()
    assert held(tmp_path) == 24
    reserve(50)
    disk.keep_reserve()
    assert not disk.give_back()
    assert held(tmp_path) == 24
    reserve(1)
    for left in (16, 8, 0):
        assert disk.give_back()
        assert held(tmp_path) == left
    assert not disk.give_back()
    reserve(500)
    disk.keep_reserve()
    assert held(tmp_path) == 24


def test_each_request_finds_room_to_write(
    db: None, reserve: Any, tmp_path: Path, alice: Any
) -> None:
    reserve(500)
    disk.keep_reserve()
    reserve(1)
    assert Client().get("/accounts/login/").status_code == 200
    assert held(tmp_path) == 16


def test_operators_see_who_holds_most(
    db: None, project: Any, bob: Any, principal: Any, operator: Any, as_user: Any
) -> None:
    from clusters import registry
    from clusters.services import ensure_local_cluster
    from volumes.models import Volume
    from volumes.services import create

    registry.reset()
    ensure_local_cluster()
    wanted = create.NewVolume(name="hoard", size_mib=2048)
    row = create.volume_create(principal=principal(bob), project=project, wanted=wanted)
    driving.run_due()
    Volume.objects.filter(pk=row.pk).update(used_bytes=7 * 2**30, used_at=now())
    page = as_user(operator).get(reverse("console:system")).content.decode()
    assert "hoard" in page
    assert "7" in page.split("hoard")[1].split("GiB")[0]
    registry.reset()


FILLED = """
import os, sys
from pathlib import Path
import django
django.setup()
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client
from common import disk

call_command("migrate", verbosity=0)
call_command("createcachetable", verbosity=0)
disk.keep_reserve()
from accounts.models import User
from accounts.principal import Principal
from clusters.services import ensure_local_cluster
from notebooks.services import ensure_default_presets
from notebooks.kind import WORKSPACE
from work.services import workload_create
from projects.services.life import project_create
ann = User.objects.create_user(username="ann", password="a long enough one")
ensure_local_cluster()
ensure_default_presets()
who = Principal(user=ann)
project = project_create(principal=who, name="Vision", slug="vision")
work = workload_create(principal=who, project=project, kind=WORKSPACE, said={})
connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")  # as after a start: no journal yet

hog = open(Path(settings.BERTH_VAR) / "hog", "wb", buffering=0)
try:
    while True:
        hog.write(b"x" * 4096)
except OSError:
    pass
client = Client(False, raise_request_exception=False, SERVER_NAME="localhost")
said = client.post("/accounts/login/", {"login": "ann", "password": "a long enough one"})
home = client.get("/")
stop = client.post(f"/api/v1/projects/vision/workspaces/{work.short_id}/stop")
print("answers", said.status_code, home.status_code, stop.status_code)
"""


@pytest.mark.real
@pytest.mark.root
@pytest.mark.parametrize(("reserve_mib", "goes_on"), [(0, False), (16, True)])
def test_a_full_file_system_lets_people_sign_in_read_and_stop(
    tmp_path: Path, reserve_mib: int, goes_on: bool
) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "berth-test", tmp_path], check=True)
    try:
        beginning(tmp_path)
        done = subprocess.run(
            [sys.executable, "-c", FILLED],
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
                "BERTH_VAR": str(tmp_path),
                "BERTH_SECRET_KEY": "x" * 50,
                "BERTH_DISK_FLOOR_MIB": "1",
                "BERTH_DISK_RESERVE_MIB": str(reserve_mib),
            },
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert ("answers 302 200 202" in done.stdout) is goes_on, done.stdout + done.stderr[-2000:]
