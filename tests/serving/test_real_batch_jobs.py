"""The real thing on one machine: a batch prediction as a job of a portal, with its own server."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.serving.test_real_endpoints import portal, sample
from tests.support.portal import Portal

__all__ = ("portal", "sample")  # fixtures
pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

WITHIN_S = 150.0


def test_a_job_predicts_what_lies_in_a_volume_and_says_how_far_it_is(
    portal: Portal, sample: dict[str, Any]
) -> None:
    api = portal.api(portal.token("admin"))
    (version,) = api.get("projects/demo/models/digits/versions").json()["results"][:1]
    volume = portal.var / "volumes" / version["volume_id"]
    (volume / "in").mkdir(mode=0o755)
    lines = [json.dumps(row) for row in sample["instances"]] * 500
    (volume / "in/a.jsonl").write_text("\n".join([*lines, "{not JSON"]))
    (volume / "in/a.jsonl").chmod(0o644)
    said = {"model": "digits/v1", "input": "volume:models/in", "output": "volume:models/out"}
    size = {"cpu_milli": 500, "memory_mib": 512}
    made = api.post("projects/demo/batch-predictions", json={**said, **size})
    assert made.status_code == 202, made.text
    path = f"projects/demo/batch-predictions/{made.json()['id']}"
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        found = api.get(path).json()
        if found["state"] in {"succeeded", "failed"} and found["progress"] == 1:
            break
        time.sleep(0.3)
    log = api.get(f"projects/demo/jobs/{found['job']}/logs").text[-2000:]
    assert (found["state"], found["progress"]) == ("succeeded", 1), f"{log}\n{portal.tail(20)}"
    assert (found["done"], found["failed"]) == (len(lines) + 1, 1)
    (folder,) = (volume / "out").glob("predict-digits-*/1")
    text = (folder / "predictions-00000.jsonl").read_text().splitlines()
    assert [json.loads(line)["prediction"] for line in text] == sample["predictions"] * 500
    (wrong,) = (folder / "errors.jsonl").read_text().splitlines()
    assert json.loads(wrong)["line"] == len(lines) + 1
