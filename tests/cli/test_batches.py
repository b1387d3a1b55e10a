"""``berth model predict-batch``: followed to its end, which is then the command's own."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from berth_cli import batches, following

from tests.cli.conftest import read
from tests.support import driving

pytestmark = pytest.mark.django_db(transaction=True)
SAID = ("--model", "digits", "--input", "volume:data/in", "--output-to", "volume:data/out")


@pytest.fixture
def me(project: Any, alice: Any, token_of: Any, transactional_db: None) -> dict[str, str]:
    """Alice, with a model in a volume."""
    from clusters import registry
    from notebooks.services import ensure_default_presets
    from serving.models import Model, ModelVersion
    from volumes.models import Volume

    registry.reset()
    ensure_default_presets()
    volume = Volume.objects.create(
        project=project, name="data", kind="data", created_by=alice, cluster_key="local"
    )
    driving.run_due()
    ModelVersion.objects.create(
        model=Model.objects.create(project=project, name="digits"),
        name="v1",
        framework="sklearn",
        files="there",
        volume=volume,
        folder="models/digits",
    )
    return {"token": token_of(alice)}


@pytest.mark.parametrize("code", [0, 66])
def test_it_is_followed_with_how_far_it_is_and_ends_as_its_job_does(
    code: int, berth: Any, me: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clusters import registry
    from jobs.models import Job, Told
    from runtime.hints import hint

    machine: Any = registry.driver_for("local")
    shares = [0.25, 0.75]

    def sleep(_seconds: float) -> None:
        """While the command sleeps the world goes on."""
        driving.run_due()
        row = Job.objects.latest("pk")
        if row.phase != "running":
            return
        share = shares.pop(0) if shares else 1.0
        why = [["The row has 3 columns.", 2], ["", 1]]
        told = {"state": {"progress": [share, int(share * 4000), 3, why]}}
        Told.objects.update_or_create(job=row, launch=row.launch, defaults=told)
        if share == 1:
            machine.exit(str(row.uid), code=code)
            hint(row)
            driving.run_due()

    world = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr(batches, "time", world)
    monkeypatch.setattr(following, "time", world)
    done = berth("model", "predict-batch", *SAID, "--follow", "-o", "json", **me)
    assert done.exit_code == code, (done.output, done.exception)
    lines = done.stderr.splitlines()
    assert lines[0] == "queued"
    assert "running: 25%, 1,000 instances, 3 not predicted" in lines
    state = "failed" if code else "succeeded"
    assert f"{state}: 100%, 4,000 instances, 3 not predicted" in lines
    assert lines[lines.index(f"{state}: 100%, 4,000 instances, 3 not predicted") + 1 :][:2] == [
        "  2 times: The row has 3 columns.",
        "  1 times: other reasons",
    ]
    made = read(done)
    assert (made["state"], made["failed"]) == (state, 3)
