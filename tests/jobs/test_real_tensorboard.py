"""The real thing on one machine: TensorBoard itself, behind the sign-in, on what a run writes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.jobs.test_real_outputs import berth
from tests.support.dataplane import dataplane_environment
from tests.support.portal import Portal, environments

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

WITHIN_S = 90.0
# The package's own writer; TensorFlow and PyTorch write the same files.
WRITES = """
import os, sys, time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter(os.environ["BERTH_OUTPUT"])
for step in range(int(sys.argv[1])):
    value = Summary.Value(tag="loss", simple_value=1 / (step + 1))
    writer.add_event(Event(step=step, wall_time=time.time(), summary=Summary(value=[value])))
    writer.flush()
    time.sleep(float(sys.argv[2]))
writer.close()
"""


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    if not (environments() / "jupyterlab").exists():
        pytest.skip("the JupyterLab environment is not built (make run or make test builds it)")
    dataplane_environment()  # of the file browser, whoever made it before
    running = Portal()
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture(scope="module")
def api(portal: Portal) -> httpx.Client:
    return portal.api(portal.token("admin"))


def run(api: httpx.Client, name: str, *words: str, **said: Any) -> str:
    size = {"cpu_milli": 500, "memory_mib": 512, "environment": "jupyterlab"}
    body = {"name": name, "command": ["python3", "-c", WRITES, *words], **size, **said}
    made = api.post("projects/demo/jobs", json=body)
    assert made.status_code == 202, made.text
    return str(made.json()["id"])


def until(ask: Any, good: Any, what: str = "") -> Any:
    deadline, found = time.monotonic() + WITHIN_S, None
    while time.monotonic() < deadline:
        try:
            found = ask()
        except (httpx.HTTPError, ValueError) as problem:
            found = problem
        else:
            if good(found):
                return found
        time.sleep(0.2)
    raise AssertionError(f"{what}: {found}")


def opened(api: httpx.Client, portal: Portal, job: str, **said: Any) -> tuple[str, httpx.Client]:
    """Return the workspace, and a client that asks TensorBoard itself as its owner."""
    made = api.post(f"projects/demo/jobs/{job}/tensorboard", json=said)
    assert made.status_code == 202, made.text
    at = f"projects/demo/workspaces/{made.json()['workspace']}"
    found = until(
        lambda: api.get(at).json(),
        lambda row: row["status"]["phase"] in {"running", "failed"},
        portal.tail(),
    )
    assert found["status"]["phase"] == "running", (found["status"], api.get(f"{at}/logs").text)
    return str(found["id"]), board(portal, found)


def board(portal: Portal, row: dict[str, Any]) -> httpx.Client:
    url = httpx.URL(row["status"]["url"])
    token = portal.shell(
        "from hubapi.services import service_token\nfrom notebooks.models import Workspace\n"
        f"answer = service_token(Workspace.objects.get(short_id={row['id']!r}).uid)"
    )
    address = url.copy_with(host="127.0.0.1")
    headers = {"Host": url.netloc.decode(), "Authorization": f"token {token}"}
    return httpx.Client(base_url=address, headers=headers, timeout=30)


def scalars(asked: httpx.Client, run: str = ".") -> list[list[float]]:
    answer = asked.get("data/plugin/scalars/scalars", params={"run": run, "tag": "loss"})
    answer.raise_for_status()
    found: list[list[float]] = answer.json()
    return found


def test_it_shows_what_a_run_writes_while_it_writes_and_lets_nobody_else_in(
    api: httpx.Client, portal: Portal
) -> None:
    job = run(api, "curve", "6000", "0.2", output="volume:shared/kept")  # until it is cancelled
    until(
        lambda: api.get(f"projects/demo/jobs/{job}").json(),
        lambda row: row["status"]["state"] == "running",
    )
    workspace, asked = opened(api, portal, job)
    first = until(lambda: scalars(asked), lambda points: len(points) > 2)
    assert first[0][1:] == [0, 1.0]
    until(lambda: scalars(asked), lambda points: len(points) > len(first))  # it looks again
    page = asked.get("")
    assert "<title>TensorBoard" in page.text, (page.status_code, page.headers, page.text[:500])
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    many = asked.post("data/plugin/timeseries/timeSeries", files={"requests": (None, "[]")})
    assert many.status_code == 200, many.text  # how its own page asks

    stranger = httpx.Client(base_url=asked.base_url, headers={"Host": asked.headers["Host"]})
    for address in ("", "data/runs", "data/plugin/scalars/tags"):
        answer = stranger.get(address)
        assert answer.status_code == 302
        assert "/hub/api/oauth2/" in answer.headers["Location"]
    assert stranger.post("data/plugin/timeseries/timeSeries").status_code == 403

    again, _asked = opened(api, portal, job)
    assert again == workspace  # one for the same run
    told = berth(portal, "job", "tensorboard", "curve", "1", "--print")
    assert workspace in told.stdout, told
    assert api.post(f"projects/demo/jobs/{job}/cancel").status_code == 202


def test_files_in_a_volume_are_told_while_it_runs_and_after(
    api: httpx.Client, portal: Portal
) -> None:
    """Read by the volume's own file browser: no links, nothing above the run's folder."""
    script = (
        'cd "$BERTH_OUTPUT"; mkdir -p "plots/日本 語"; echo 0.9 > accuracy.txt; '
        'echo x > "plots/日本 語/a#b%41.png"; ln -s /etc/passwd leads-out; sleep 3'
    )
    size = {"cpu_milli": 500, "memory_mib": 256, "environment": "jupyterlab"}
    body = {"name": "files", "command": ["bash", "-c", script], "output": "volume:shared/kept"}
    job = api.post("projects/demo/jobs", json={**body, **size}).json()["id"]
    url = f"projects/demo/jobs/{job}/runs/1/artifacts/files"
    found = until(
        lambda: api.post(url).json(), lambda said: said.get("is_open") and len(said["files"]) > 1
    )
    named = {one["path"]: one["size"] for one in found["files"]}
    assert named == {"accuracy.txt": 4, "plots/日本 語/a#b%41.png": 2}
    assert found["complete"] is True
    until(
        lambda: api.get(f"projects/demo/jobs/{job}").json(),
        lambda row: row["status"]["state"] == "succeeded",
    )
    told = berth(portal, "job", "artifacts", "files")
    assert "accuracy.txt" in told.stdout, told
    assert "leads-out" not in told.stdout
