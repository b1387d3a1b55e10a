"""A training's whole way in one browser: J1c, A6, A7, C21, C35 and G9 in one piece.

A notebook becomes a job; its typo is caught before the queue; mended it waits for another
project's job, runs, gives its GPU back to whom it is guaranteed, goes on from its checkpoint, and
leaves its files in a bucket; its time adds up. Real JupyterLab, processes, reclaim and store; the
GPU is simulated.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from benchmarks.lib import poll
from tests.browser.conftest import MAIL, PASSWORD
from tests.browser.test_run_as_job import write
from tests.browser.test_two_clicks import LAB_WITHIN_MS, Visitor
from tests.jobs.running import Jobs
from tests.jobs.test_real_outputs import store  # noqa: F401 - a fixture
from tests.notebooks.test_real_workspace import Jupyter
from tests.support.clustered import ok
from tests.support.dataplane import dataplane_environment, settings_open_to
from tests.support.gpus import NO_REAL_GPUS
from tests.support.portal import Portal, environments
from tests.support.stores import RcloneS3, run_client

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.timeout(300), NO_REAL_GPUS]

SEEN_WITHIN_MS = 60_000
STEPS = 60
# Of a training: it keeps each fifth step, goes on from the newest, tells of itself, leaves a file.
TRAINS = f"""
import json, os, pathlib, time
kept = pathlib.Path(os.environ["BERTH_CHECKPOINTS"])
latest = pathlib.Path(os.environ["BERTH_CHECKPOINT_LATEST"], "step")
step = int(latest.read_text()) if latest.exists() else 0
print("begins at", step, flush=True)
with open(os.environ["BERTH_EVENTS"], "a", buffering=1) as told:
    while step < (3 if "BERTH_SMOKE_RUN" in os.environ else {STEPS}):
        print(json.dumps({{"step_count": step, "step_start_time": time.time()}}), file=told)
        time.sleep(0.2)
        step += 1
        if step % 5 == 0:
            new = kept / ".new"
            new.mkdir()
            (new / "step").write_text(str(step))
            new.rename(kept / f"step-{{step}}")
        print("step", step, flush=True)
"""
LEAVES = 'pathlib.Path(os.environ["BERTH_OUTPUT"], "model.txt").write_text(f"after {step} steps")'
TYPO = LEAVES[:-1]
# Two projects share the one GPU, which is guaranteed to the other one.
SHARED = f"""
from accounts.models import User
from clusters.models import Cluster, Device
from clusters.services.health import health_refresh
from projects.models import Membership, Project
from queues.models import Guarantee, Queue
health_refresh(key="local")
ann = User(username="ann", email="ann@example.org")
ann.set_password({PASSWORD!r})
ann.save()
for slug, owner, guaranteed in (("vision", ann, 0), ("robotics", User.objects.get(username="admin"), 1)):
    project = Project.objects.create(slug=slug, name=slug.title(), phase="running")
    Membership.objects.create(project=project, user=owner, role="owner")
    queue = Queue.objects.create(name=slug, project=project)
    Guarantee.objects.create(
        queue=queue, cluster=Cluster.objects.get(key="local"),
        flavor=Device.objects.get().flavor, guaranteed=guaranteed,
    )
answer = True
"""


@pytest.fixture(scope="module")
def portal(store: RcloneS3) -> Iterator[Portal]:  # noqa: F811
    if not (environments() / "jupyterlab").exists():
        pytest.skip("the JupyterLab environment is not built (make run or make test builds it)")
    dataplane_environment()
    of_gpus = {"BERTH_SIMULATED_GPUS": "1xH100-80", "BERTH_RECLAIM_GRACE_SECONDS": "5"}
    running = Portal({**MAIL, **of_gpus, **settings_open_to(store.outbound())})
    try:
        running.start().shell(SHARED)
        yield running
    finally:
        running.close()


@pytest.fixture
def robotics(portal: Portal) -> Jobs:
    """The project whose GPU it is."""
    size = {"cpu_milli": 100, "memory_mib": 256, "gpus": 1, "cluster_key": "local"}
    return Jobs(portal, project="robotics", owner="admin", environment="jupyterlab", **size)


@dataclass
class Desk:
    """Ann's workspace with its notebook, and a bucket that a credential of hers opens."""

    lab: Any
    lab_url: str
    target: str


@pytest.fixture
def desk(portal: Portal, store: RcloneS3) -> Desk:  # noqa: F811
    api, work = portal.api(portal.token("ann")), "projects/vision/workspaces"
    said = {"kind": "s3-compatible", "name": "lake", "endpoint": store.url, "region": "us-east-1"}
    keys = {"access_key": store.keys.access, "secret_key": store.keys.secret}
    ok(api.post("projects/vision/credentials", json={**said, **keys, "path_style": True}))
    made = ok(api.post(work, json={"name": "desk", "cpu_milli": 1000, "memory_mib": 1024})).json()
    one = f"{work}/{made['id']}"
    poll(lambda: ok(api.get(one)).json()["status"]["phase"] == "running", within_s=60, every_s=0.3)
    found = ok(api.get(one)).json()
    bucket = store.make_bucket("story")
    return Desk(Jupyter(portal, found).client, found["status"]["url"], f"s3://{bucket}/results")


def submitted(ann: Visitor, desk: Desk) -> Page:
    """From the notebook in JupyterLab: two presses and two fields."""
    ann.page.goto(f"{desk.lab_url}lab/tree/train.ipynb")
    press = ann.page.locator(".jp-NotebookPanel").get_by_role("button", name="Run as job")
    press.wait_for(timeout=LAB_WITHIN_MS)
    ann.clicks = 0
    with ann.context.expect_page() as opened:
        ann.click(press)
    page: Page = opened.value
    page.get_by_label("GPUs", exact=True).fill("1")
    page.get_by_label("Output", exact=True).fill(desk.target)
    ann.click(page.get_by_role("button", name="Start", exact=True))
    assert ann.clicks == 2
    return page


def test_a_notebook_becomes_a_job_that_is_mended_waits_is_preempted_and_leaves_its_artifacts(
    chromium: Browser,
    portal: Portal,
    robotics: Jobs,
    desk: Desk,
    store: RcloneS3,  # noqa: F811
    tmp_path: Path,
) -> None:
    write(desk.lab, TRAINS, TYPO)
    before = robotics.make("grasping", command=["sleep", "600"])
    robotics.until(before, "running")
    ann = Visitor(chromium, portal)
    ann.sign_in("ann")
    page = submitted(ann, desk)

    # the typo is found before it is in line, and shown with its line
    state, smoke = page.locator("#overview"), page.locator("#smoke")
    expect(smoke).to_contain_text("Cell 2 can't be run", timeout=SEEN_WITHIN_MS)
    expect(smoke).to_contain_text("SyntaxError")
    expect(state).to_contain_text("so it was not queued")
    picture(page, tmp_path / "1-typo.png")

    # mended it passes, and waits for what another project holds
    write(desk.lab, TRAINS, LEAVES)
    page.get_by_role("button", name="Run again").first.click()
    expect(smoke).to_contain_text("passed", timeout=SEEN_WITHIN_MS)
    wait = page.get_by_role("group", name="The wait")
    expect(wait).to_contain_text("Place in line1", timeout=SEEN_WITHIN_MS)
    expect(state).to_contain_text("Waiting for 1 GPU; position 1 in the queue.")
    picture(page, tmp_path / "2-queued.png")

    # it has its turn, and gives back what is guaranteed to others
    robotics.stop(before)
    said_state, address = page.locator(".state-words"), page.url
    expect(said_state).to_contain_text("Running", timeout=SEEN_WITHIN_MS)
    read_log(page, "step 7")
    page.goto(address)
    owed = robotics.make("policy", command=["sleep", "4"])
    robotics.until(owed, "running", "succeeded", within_s=60)
    expect(said_state).to_contain_text("Queued", timeout=SEEN_WITHIN_MS)
    picture(page, tmp_path / "3-preempted.png")
    expect(state).to_contain_text("GPUs given back1 time")
    expect(state).to_contain_text("from its newest checkpoint")

    # it goes on by itself
    expect(said_state).to_contain_text("Running", timeout=SEEN_WITHIN_MS)
    expect(said_state).to_contain_text("Succeeded", timeout=SEEN_WITHIN_MS)
    picture(page, tmp_path / "4-done.png")
    log = read_log(page, f"step {STEPS}").inner_text()
    begun = int(re.findall(r"begins at (\d+)", log)[-1])
    assert (begun >= 5, begun % 5) == (True, 0)
    lies_in_the_bucket(page, store, desk.target, tmp_path)
    page.goto(address)
    page.get_by_role("link", name="When each was").click()
    adds_up(page)
    picture(page, tmp_path / "6-goodput.png")
    ann.context.close()


def lies_in_the_bucket(page: Page, store: RcloneS3, target: str, pictures: Path) -> None:  # noqa: F811
    """What it left is complete there, and its page says so."""
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("link", name="Look at what it left").click()
    files = page.locator("#artifacts")
    expect(files.get_by_text("Complete")).to_be_visible(timeout=SEEN_WITHIN_MS)
    expect(files).to_contain_text("model.txt")
    picture(page, pictures / "5-artifacts.png")
    copied = files.get_by_text(target).inner_text().removeprefix("s3://")
    bucket, _slash, key = copied.partition("/")
    (body,) = run_client(store, [{"do": "get", "bucket": bucket, "key": f"{key}model.txt"}])
    assert base64.b64decode(body) == f"after {STEPS} steps".encode()


def read_log(page: Page, line: str) -> Locator:
    """Show the log, and return it when it has the line."""
    page.get_by_role("link", name="Logs").first.click()
    log = page.get_by_role("log")
    expect(log).to_contain_text(line, timeout=SEEN_WITHIN_MS)
    return log


def adds_up(page: Page) -> None:
    """Its parts follow each other without a gap, and its causes are all of its time."""
    page.get_by_text("Each part with its times").first.click()
    table = page.get_by_role("region", name="Each part with its times")
    times: Any = table.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('time')].map(t => t.dateTime))"
    )
    spans = [(datetime.fromisoformat(a), datetime.fromisoformat(b)) for a, b in times]
    assert all(end == begin for (_, end), (begin, _) in pairwise(spans)), spans
    causes = page.get_by_role("region", name="What the time of run 2 came to")
    told = causes.get_by_role("row").all_inner_texts()[1:]
    shares = [int(found[1]) for row in told if (found := re.search(r"(\d+)\s?%", row))]
    assert 100 - len(told) <= sum(shares) <= 100 + len(told), told
    names = " ".join(told)
    for cause in ("Running", "Done again", "Its place was taken", "Waiting for its turn"):
        assert cause in names, (cause, told)


def picture(page: Page, path: Path) -> None:
    """As it is seen wide and light, and narrow and dark."""
    page.screenshot(path=path, full_page=True)
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark")
    wide = page.evaluate("document.documentElement.scrollWidth")
    page.screenshot(path=path.with_name(f"narrow-{path.name}"), full_page=True)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="light")
    assert wide <= 390, f"{path.stem} is {wide} wide on a phone"
