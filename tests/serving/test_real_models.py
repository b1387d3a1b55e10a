"""The real thing on one machine: models come from a terminal, a run and a bucket of a real store."""

from __future__ import annotations

import json
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
import pytest

from tests.jobs.test_real_outputs import (
    Outputs,
    api,  # noqa: F401 - fixtures
    berth,
    portal,  # noqa: F401
    store,  # noqa: F401
)
from tests.support.portal import Portal

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

TRAIN = 'mkdir -p "$BERTH_OUTPUT/best"; echo "tree" > "$BERTH_OUTPUT/best/model.txt"'


def added(portal: Portal, *words: str) -> dict[str, Any]:  # noqa: F811
    """Add a version of ``digits``; return it once its files are there."""
    done = berth(portal, "model", "version", "add", "digits", *words, "-o", "json")
    assert done.returncode == 0, done.stderr
    found: Any = json.loads(done.stdout)
    return dict(found[0] if isinstance(found, list) else found)


def test_c27_versions_come_from_a_folder_here_a_run_and_its_bucket(
    portal: Portal,  # noqa: F811
    api: httpx.Client,  # noqa: F811
    store: Any,  # noqa: F811
    tmp_path: Path,
) -> None:
    assert berth(portal, "model", "create", "digits").returncode == 0
    folder = tmp_path / "trained"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"\x08" * 3_000_000)
    sent = added(portal, "--from-dir", str(folder), "--metric", "accuracy=0.9")
    assert (sent["name"], sent["framework"], sent["size_bytes"]) == ("v1", "onnx", 3_000_000)
    there = portal.var / "volumes" / sent["volume_id"] / sent["folder"] / "model.onnx"
    assert there.stat().st_size == 3_000_000

    runs, bucket = Outputs(api, portal, store), store.make_bucket(f"models-{token_hex(4)}")
    here = runs.run(TRAIN, name="here", output="volume:shared/results")
    away = runs.run(TRAIN, name="away", output=f"s3://{bucket}/results")
    runs.until(here, "kept")
    copied = runs.until(away, "complete")
    in_place = added(portal, "--from", "run:here/latest/best")
    assert (in_place["volume"], in_place["framework"]) == ("shared", "lightgbm")
    back = added(portal, "--from", "run:away/1/best", "--credential", "lake")
    assert (back["volume"], back["framework"], back["size_bytes"]) == ("models", "lightgbm", 5)
    # a bucket's folder, without a slash at its end
    from_bucket = added(portal, "--from", f"{copied['url']}best", "--credential", "lake")
    assert from_bucket["folder"].endswith("/best")
    refused = berth(
        portal,
        *("model", "version", "add", "digits", "--from"),
        f"s3://{bucket}/nothing/here",
        "--credential",
        "lake",
    )
    assert refused.returncode != 0
    assert "digits/v5" in refused.stderr
    told = berth(portal, "model", "describe", "digits").stdout
    assert [line.split()[0] for line in told.splitlines()[2:]] == ["v5", "v4", "v3", "v2", "v1"]
