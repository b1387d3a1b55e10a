"""What was measured before ``metrics`` had it is there afterwards, and nobody's idleness begins anew."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BEFORE = [("notebooks", "0006_seal_env"), ("hubapi", "0003_activity_measured")]
AFTER = [("notebooks", "0007_samples_to_metrics"), ("hubapi", "0004_quiet_is_measured")]
SCRIPT = f"""
import json, os, uuid
from datetime import UTC, datetime, timedelta
import django
django.setup()
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

MigrationExecutor(connection).migrate({BEFORE})
before = MigrationExecutor(connection).loader.project_state({BEFORE}).apps  # rendered once
made = lambda model, **values: before.get_model(model).objects.create(**values)
user = made("accounts.User", username="ann", email="ann@example.org")
project = made("projects.Project", name="P", slug="p")
at = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
uids = [uuid.UUID(int=n) for n in (1, 2)]
home = made("volumes.Volume", name="h", project=project, owner=user)
rows = [
    made("notebooks.Workspace", uid=uid, short_id=f"w{{n}}", name=f"w{{n}}", project=project,
         owner=user, home=home)
    for n, uid in enumerate(uids)
]
for n in range(5):
    made("notebooks.Sample", workspace=rows[n % 2], at=at + timedelta(seconds=30 * n),
         cpu_milli=n or None, gpu_utilisation=n / 2)
made("hubapi.Activity", uid=uids[0], measured_at=at, last_busy_at=at - timedelta(hours=1))
made("hubapi.Activity", uid=uids[1])

MigrationExecutor(connection).migrate({AFTER})
after = MigrationExecutor(connection).loader.project_state({AFTER}).apps
sample, quiet = (after.get_model("metrics", name) for name in ("Sample", "Quiet"))
kept = [
    [uid.int, (when - at).total_seconds(), cpu, gpu]
    for uid, when, cpu, gpu in sample.objects.order_by("at").values_list(
        "uid", "at", "cpu_milli", "gpu_utilisation")
]
since = [[uid.int, (at - when).total_seconds()]
         for uid, when in quiet.objects.values_list("uid", "since")]
with connection.cursor() as cursor:  # a worker of the version before goes on
    cursor.execute("INSERT INTO notebooks_sample (workspace_id, at) VALUES (%s, %s)",
                   [rows[0].pk, at])
after.get_model("notebooks", "Workspace").objects.all().delete()
print(json.dumps({{"samples": kept, "quiet": since}}))
"""


@pytest.mark.slow
def test_samples_and_quiet_move_with_their_workloads(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={
            **os.environ,
            "BERTH_VAR": str(tmp_path),
            "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["samples"] == [
        [1, 0.0, None, 0.0],
        [2, 30.0, 1, 0.5],
        [1, 60.0, 2, 1.0],
        [2, 90.0, 3, 1.5],
        [1, 120.0, 4, 2.0],
    ]
    assert found["quiet"] == [[1, 3600.0]]
