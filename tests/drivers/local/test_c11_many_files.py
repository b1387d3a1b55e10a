"""A volume of very many files is measured and removed, and nobody else waits for it (C11).

How many is a matter of patience; what a million takes is in docs/dev/volumes.md.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from runtime.protocol import Seen
from tests.drivers.local.harness import wait_for

pytestmark = [
    pytest.mark.real,
    pytest.mark.long("a flood; the removal: drivers/local/test_data_volumes.py"),
]

MANY = int(os.environ.get("BERTH_TEST_MANY_FILES", "20000"))
PER_FOLDER = 10_000
ANSWERS_S = 5.0  # of a supervisor that does something else; a machine may be busy with more


def fill(folder: Path) -> None:
    owner = folder.stat()
    for number in range(MANY):
        if number % PER_FOLDER == 0:
            below = folder / f"d{number}"
            below.mkdir()
            os.chown(below, owner.st_uid, owner.st_gid)
        os.close(os.open(below / f"{number:07}", os.O_CREAT | os.O_WRONLY, 0o600))


def test_c11_a_volume_of_very_many_files_is_measured_and_its_removal_outlives_a_kill(
    ordinary: Any,
) -> None:
    supervisor, driver = ordinary, ordinary.driver
    neighbour = supervisor.shell("sleep 600")
    supervisor.ready(neighbour)
    driver.ensure_volume("many", project=supervisor.project, owner="")

    def removed_within() -> float:
        fill(supervisor.volumes / "many")
        # a folder takes blocks for its names, an empty file none
        wait_for(lambda: (driver.volume_usage("many") or 0) > MANY * 8)
        begun = time.monotonic()
        driver.remove_volume("many")
        driver.ensure_volume("many", project=supervisor.project, owner="")  # a new one, at once
        assert list((supervisor.volumes / "many").iterdir()) == []
        assert driver.observe([neighbour.uid])[neighbour.uid].seen == Seen.READY
        return time.monotonic() - begun

    assert any(removed_within() < ANSWERS_S for _ in range(3))  # the machine may be busy
    supervisor.restart()  # in the middle of it: what was left is removed by the next one
    wait_for(lambda: not list(supervisor.volumes.glob(".gone-*")))
    assert driver.observe([neighbour.uid])[neighbour.uid].seen == Seen.READY
    assert list((supervisor.volumes / "many").iterdir()) == []
