"""A database of the time before there was one table for all work, and what becomes of it.

``before`` makes it and writes down its rows, ``killed`` migrates and is killed before a step of one
migration, ``after`` migrates and compares: each in a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

BEFORE = [("notebooks", "0007_samples_to_metrics"), ("loaders", "0007_what_runs_wrote")]
RENAMED = {
    "workspace": {"kind": "variant", "id": "pk"},
    "load": {"kind": "store_kind", "ended_at": "stopped_at"},
}
OLD = {
    "app": "notebooks",
    "row": "workspace",
    "needed": "load",
    "needs": ("notebooks", "WorkspaceNeed"),
    "mounts": ("notebooks", "WorkspaceVolume"),
}
NEW = {
    "app": "work",
    "row": "workload",
    "needed": "needed",
    "needs": ("work", "WorkloadNeed"),
    "mounts": ("work", "WorkloadVolume"),
}
PHASES = ("pending", "starting", "running", "stopping", "stopped", "failed", "deleting", "unknown")


def executor() -> Any:
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    return MigrationExecutor(connection)


def before(kept: str) -> None:
    from django.core.management import call_command

    for app, name in BEFORE:
        call_command("migrate", app, name, verbosity=0)
    apps = executor().loader.project_state(BEFORE).apps
    _fill(apps)
    rows = {
        "workspace": _values(apps.get_model("notebooks", "Workspace")),
        "load": _values(apps.get_model("loaders", "Load")),
        "pointing": _pointing(apps.get_model, OLD),
    }
    Path(kept).write_text(json.dumps(rows))


def _values(model: Any) -> dict[str, dict[str, str]]:
    rows = model.objects.values(*(field.attname for field in model._meta.concrete_fields))
    return {str(row["uid"]): {name: repr(value) for name, value in row.items()} for row in rows}


def _pointing(get_model: Any, of: Any) -> dict[str, list[str]]:
    """What points at a workspace or a load, by the uids of both."""

    def told(app: str, model: str, *names: str) -> list[str]:
        return sorted(repr(row) for row in get_model(app, model).objects.values_list(*names))

    return {
        "runs": told("loaders", "LoadRun", "load__uid", "launch", "result"),
        "logs": told("loaders", "RunLog", "run__load__uid", "start"),
        "needs": told(*of["needs"], f"{of['row']}__uid", f"{of['needed']}__uid"),
        "mounts": told(*of["mounts"], f"{of['row']}__uid", "volume__uid"),
        "shares": told(of["app"], "Share", f"{of['row']}__uid", "user__username"),
        "steps": told(of["app"], "Step", f"{of['row']}__uid", "launch", "word"),
    }


def _fill(apps: Any) -> None:
    from common.clock import now
    from common.ids import new_short_id

    at = now()
    get = apps.get_model
    users = [get("accounts", "User").objects.create(username=f"u{n}") for n in range(2)]
    projects = [
        get("projects", "Project").objects.create(slug=f"p{n}", name=f"P{n}") for n in range(2)
    ]
    workspaces, loads = [], []
    for n, phase in enumerate(PHASES * 2):
        owner, project = users[n % 2], projects[n // len(PHASES)]
        volume = get("volumes", "Volume").objects.create(
            project=project, owner=owner, name=f"v{n}", kind="data"
        )
        same: dict[str, Any] = {
            "project": project,
            "owner": owner,
            "phase": phase,
            "desired": "stopped" if phase in {"stopped", "stopping"} else "running",
            "generation": n + 2,
            "observed_generation": n + 1,
            "reason": "placed" * (n % 2),
            "message": "“quoted” ' and %",
            "phase_since": at - timedelta(minutes=n) if n % 3 else None,
            "external_ref": {"launch": n, "noted": {"launch": 1, "words": ["a"]}},
            "next_reconcile_at": at + timedelta(days=9) if n % 4 else None,
            "failures": n,
            "lease_attempts": n % 3,
            "deleted_at": at if n == 6 else None,
            "launch": n,
            "asked_at": at,
            "started_at": at - timedelta(seconds=n),
            "stop_reason": "",
            "nonce": f"n{n}" * (n % 2),
            "cpu_milli": 100 + n,
            "memory_mib": 300 + n,
        }
        if n == 5:
            same["lease_token"] = get("projects", "Project")._meta.get_field("uid").default()
            same["lease_until"] = at + timedelta(days=1)
        row = get("notebooks", "Workspace").objects.create(
            **same,
            short_id=new_short_id(),
            name=f"w{n}" if n != 4 else "w6",
            home=volume,
            gpus=n % 3,
            gpu_flavor="a100,h100" * (n % 2),
            env={"A": "b"},
            kind="container" if n % 2 else "notebook",
            image="i" * n,
            ports=[{"port": 8080, "name": "x", "web": True}],
            shm_mib=n,
            pool="p" * (n % 2),
            network="net" * (n % 2),
            time_limit_minutes=n or None,
            ends_at=at if n == 3 else None,
            stopped_at=at if n == 4 else None,
            last_used_at=at,
        )
        workspaces.append(row)
        get("notebooks", "Step").objects.create(workspace=row, launch=n, word="ready", at=at)
        get("notebooks", "Share").objects.create(workspace=row, user=users[(n + 1) % 2])
        get("notebooks", "WorkspaceVolume").objects.create(workspace=row, volume=volume)
        if n % 3 == 0:
            continue
        load = get("loaders", "Load").objects.create(
            **same,
            name=f"l{n}",
            volume=volume,
            anonymous=True,
            kind="s3",
            bucket="b",
            fingerprint=str(n),
            ended_at=at if phase == "stopped" else None,
            result="done" if phase == "stopped" else "",
            files_done=n,
        )
        loads.append(load)
        run = get("loaders", "LoadRun").objects.create(
            load=load, launch=n, task="load", asked_at=at
        )
        get("loaders", "RunLog").objects.create(run=run, start=n, data=b"said")
        get("notebooks", "WorkspaceNeed").objects.create(workspace=row, load=load)
    assert {row.pk for row in workspaces} & {load.pk for load in loads}, "ids of both must overlap"


def killed(app: str, name: str, step: int) -> None:
    from django.core.management import call_command
    from django.db.migrations.executor import MigrationExecutor

    def forwards(self: Any, *args: Any, **kwargs: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    apply = MigrationExecutor.apply_migration

    def applied(self: Any, state: Any, migration: Any, **how: Any) -> Any:
        if (migration.app_label, migration.name) == (app, name):
            migration.operations[step].database_forwards = forwards.__get__(
                migration.operations[step]
            )
        return apply(self, state, migration, **how)

    MigrationExecutor.apply_migration = applied  # type: ignore[method-assign]
    call_command("migrate", verbosity=0)


def after(kept: str) -> None:
    from django.apps import apps
    from django.core.management import call_command

    from loaders.models import Load
    from notebooks.models import Workspace
    from runtime import due_scheduler, engine
    from work.models import Workload

    call_command("migrate", run_syncdb=True, verbosity=0)
    had = json.loads(Path(kept).read_text())
    for kind, model in (("workspace", Workspace), ("load", Load)):
        rows = {str(row.uid): row for row in model.objects.all()}
        assert rows.keys() == had[kind].keys()
        for uid, columns in had[kind].items():
            wanted = {
                RENAMED[kind].get(name, name): value
                for name, value in columns.items()
                if (kind, name) != ("load", "id")  # the only thing that changed
            }
            row = rows[uid]
            found = {name: repr(getattr(row, name)) for name in wanted}
            assert found == wanted, (found, wanted)
            assert row.kind == kind
            assert row.name_scope == (row.owner_id if kind == "workspace" else 0)
    assert Workload.objects.count() == len(had["workspace"]) + len(had["load"])
    assert _pointing(apps.get_model, NEW) == had["pointing"]

    # ids go on after those that there are, and the engine takes what is due, by its kind
    row = Workspace.objects.filter(deleted_at=None, lease_token=None).first()
    assert row is not None
    again = Workspace.objects.create(
        project=row.project, owner=row.owner, home=row.home, name="new", next_reconcile_at=None
    )
    assert again.pk > max(Workload.objects.exclude(pk=again.pk).values_list("pk", flat=True))
    held = Workload.objects.filter(lease_until__isnull=False)
    assert sorted(held.values_list("kind", flat=True)) == ["load", "workspace"]
    free = Workload.objects.filter(deleted_at=None, lease_until=None)
    wanted = sorted(free.values_list("kind", "pk"))
    Workload.objects.update(next_reconcile_at=again.created_at)
    due = [item for item in due_scheduler.due_items() if item[0] in RENAMED]
    assert sorted(due) == wanted
    for kind, pk in due:
        claim = engine.claim(kind, pk)
        assert claim is not None
        assert (claim.row.KIND, claim.row.pk) == (kind, pk)
    other = {"workspace": "load", "load": "workspace"}
    Workload.objects.update(lease_until=None)
    assert [engine.claim(other[kind], pk) for kind, pk in due] == [None] * len(due)
