"""A fake machine, and jobs as rows: what services write of a launch is written here by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from common.clock import now


@pytest.fixture(autouse=True)
def _fresh_machine(world: Any) -> None:
    """No test sees what another one's machine did."""


@pytest.fixture
def fake(world: Any) -> Any:
    return world.driver_for("local")


@pytest.fixture
def job(project: Any, alice: Any) -> Callable[..., Any]:
    """Make a job that is wanted."""
    from jobs.models import Job

    def make(**columns: Any) -> Any:
        values = {
            "project": project,
            "owner": alice,
            "name": "train",
            "cluster_key": "local",
            "environment": "jupyterlab",
            "command": ["python", "train.py"],
            "launch": 1,
            "asked_at": now(),
            "next_reconcile_at": now(),
        }
        return Job.objects.create(**{**values, **columns})

    return make


@pytest.fixture
def want() -> Callable[..., Any]:
    """Change intent as a service does; ``running`` is a new launch."""
    from jobs.models import Job
    from runtime.hints import hint

    def change(row: Any, desired: str, **columns: Any) -> Any:
        row.refresh_from_db()
        row.generation += 1
        row.desired = desired
        if desired == "running":
            row.launch += 1
            row.started_at = row.ready_at = row.ends_at = row.stopped_at = None
            row.asked_at, row.stop_reason = now(), ""
        for name, value in columns.items():
            setattr(row, name, value)
        row.save()
        hint(row)
        return Job.objects.get(pk=row.pk)

    return change


@pytest.fixture
def end(fake: Any, settle: Any, django_capture_on_commit_callbacks: Any) -> Callable[..., Any]:
    """Let its program end, and the engine see it."""
    from runtime.hints import hint

    def run(row: Any, code: int | None = 0, **how: Any) -> Any:
        fake.exit(str(row.uid), code=code, **how)
        with django_capture_on_commit_callbacks(execute=True):  # a smoke run tells its job then
            hint(row)  # what the watch does
            settle(row)
        return settle(row)

    return run


@pytest.fixture
def load(project: Any, shared: Any, principal: Any) -> Callable[..., Any]:
    """Make and start a load of a public bucket."""
    from loaders.services import load_create

    def make(user: Any) -> Any:
        said = {"url": "s3://bucket/images"}
        return load_create(principal=principal(user), project=project, said=said)

    return make


@pytest.fixture
def asked(project: Any, principal: Any, alice: Any, presets: Any) -> dict[str, Any]:
    """Who asks for a job, and where."""
    from jobs.kind import JOB

    return {"principal": principal(alice), "project": project, "kind": JOB}


@pytest.fixture
def ran(asked: dict[str, Any], settle: Any, fake: Any) -> Callable[..., Any]:
    """Make one, and let it end with a code; None: it goes on."""
    from runtime.hints import hint
    from work import services

    def run(code: int | None = 0, **said: Any) -> Any:
        row = settle(
            services.workload_create(**asked, said={"command": ["python", "train.py"], **said})
        )
        if code is None:
            return row
        fake.exit(str(row.uid), code=code)
        hint(row)
        return settle(row)

    return run


@pytest.fixture
def cluster(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A cluster that runs images, and no machine."""
    from tests.notebooks.cluster_world import attach

    settings.BERTH_LOCAL_CLUSTER = False
    return attach(monkeypatch)
