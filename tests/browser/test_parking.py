"""J1b and C33 in a browser: warned inside JupyterLab, extended there, parked, resumed with its files.

Real JupyterLab and supervisor on one machine with a simulated GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from benchmarks.lib import poll
from tests.browser.conftest import PASSWORD
from tests.browser.test_two_clicks import LAB_WITHIN_MS, Visitor
from tests.support.clustered import ok
from tests.support.gpus import NO_REAL_GPUS
from tests.support.portal import Portal

pytestmark = [
    pytest.mark.browser,
    pytest.mark.real,
    pytest.mark.timeout(600),
    NO_REAL_GPUS,
]
SIMULATED = {
    "BERTH_SIMULATED_GPUS": "1xH100-80",
    "BERTH_RECLAIM_GRACE_SECONDS": "20",
    "BERTH_EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend",
}
GUARANTEED = """
from accounts.models import User
from clusters.models import Cluster, Device
from clusters.services.health import health_refresh
from projects.models import Membership, Project
from queues.models import Guarantee, Queue
user = User(username="ann", email="ann@example.org")
user.set_password({password!r})
user.save()
project = Project.objects.get(slug="demo")
Membership.objects.create(project=project, user=user, role="owner")
health_refresh(key="local")
queue = Queue.objects.create(name="demo", project=project)
kind = Device.objects.first().flavor
Guarantee.objects.create(
    queue=queue, cluster=Cluster.objects.get(key="local"), flavor=kind, guaranteed=1
)
answer = True
"""
LIST = "projects/demo/workspaces"
WRITE = """() => {
  const xsrf = document.cookie.match(/_xsrf=([^;]*)/)?.[1] ?? "";
  const file = { type: "file", format: "text", content: "kept" };
  const headers = { "X-XSRFToken": xsrf, "Content-Type": "application/json" };
  const body = JSON.stringify(file);
  return fetch("/api/contents/kept.txt", { method: "PUT", headers, body }).then((r) => r.status);
}"""
READ = """() => {
  const headers = { "X-XSRFToken": document.cookie.match(/_xsrf=([^;]*)/)?.[1] ?? "" };
  return fetch("/api/contents/kept.txt", { headers }).then((r) => r.json()).then((f) => f.content);
}"""


@pytest.fixture(scope="module")
def simulated() -> Iterator[Portal]:
    running = Portal(SIMULATED)
    try:
        running.start()
        running.shell(GUARANTEED.format(password=PASSWORD))
        yield running
    finally:
        running.close()


def open_lab(page: Page) -> str:
    page.wait_for_url(re.compile(r"//[a-z0-9-]+\.nb\.localhost"), timeout=LAB_WITHIN_MS)
    page.locator(".jp-LauncherCard").first.wait_for(timeout=LAB_WITHIN_MS)
    return page.url.split("/lab")[0]


def test_j1b_warned_inside_lab_extended_there_parked_and_resumed_with_its_files(
    chromium: Any, simulated: Portal
) -> None:
    with simulated.api(simulated.token("ann")) as api:
        said = {"name": "mine", "gpus": 1, "cpu_milli": 500, "memory_mib": 1024}
        made = ok(api.post(LIST, json={**said, "time_limit_minutes": 14})).json()
        one = f"{LIST}/{made['id']}"
        poll(
            lambda: ok(api.get(one)).json()["status"]["phase"] == "running",
            within_s=180,
            every_s=0.5,
        )
        before = ok(api.get(one)).json()["ends_at"]
        ann = Visitor(chromium, simulated)
        ann.sign_in("ann")
        page = ann.page
        page.goto(f"{simulated.url}/projects/demo/workspaces/{made['id']}/")
        opens = page.get_by_role("link", name="Open", exact=True).first
        page.goto(opens.get_attribute("href") or "")
        address = open_lab(page)

        warning = page.locator(".Toastify__toast", has_text="Its time limit is near")
        expect(warning).to_contain_text(re.compile(r"\d:\d\d"), timeout=60_000)
        minutes, seconds = re.findall(r"(\d+):(\d\d)", warning.inner_text())[-1]
        left = datetime.fromisoformat(before) - datetime.now(UTC)  # however long Lab took to open
        assert abs(60 * int(minutes) + int(seconds) - left.total_seconds()) < 60
        warning.get_by_role("button", name="60 minutes more").click()
        expect(warning).to_have_count(0)
        assert ok(api.get(one)).json()["ends_at"] > before
        assert page.evaluate(WRITE) == 201

        page.goto(f"{simulated.url}/projects/demo/workspaces/{made['id']}/")
        page.get_by_role("button", name="Park", exact=True).click()
        way_back = page.get_by_role("group", name="The way back")
        expect(way_back).to_be_visible(timeout=60_000)  # it has ended
        expect(page.locator("#state")).to_contain_text("Parked; resume any time")
        expect(way_back).to_contain_text("ready about now · by your ticket")
        assert (
            simulated.shell("from clusters.models import Hold; answer = Hold.objects.count()") == 0
        )

        way_back.get_by_role("button", name="Go on without GPUs").click()
        assert open_lab(page) == address
        assert page.evaluate(READ) == "kept"
        assert ok(api.get(one)).json()["spec"]["gpus"] == 0

        page.goto(f"{simulated.url}/projects/demo/workspaces/{made['id']}/")
        page.get_by_role("button", name="Get the GPUs back").click()
        poll(lambda: is_back(ok(api.get(one)).json()), within_s=180, every_s=0.5)
        page.goto(address)
        open_lab(page)
        assert page.evaluate(READ) == "kept"


SHORT = """
from parking.models import IdlePolicy
IdlePolicy.objects.create(
    state="on", minutes=1, grace=1, extension=1, extensions=2, act="park",
    cpu_below=800, gpu_below=100,  # a busy machine, and what simulated GPUs play
)
answer = True
"""
UNSAVED = "typed and never saved"
DOCUMENTS = "@jupyterlab/docmanager-extension:plugin"
NO_AUTOSAVE = f"""() => {{
  const xsrf = document.cookie.match(/_xsrf=([^;]*)/)?.[1] ?? "";
  const headers = {{ "X-XSRFToken": xsrf, "Content-Type": "application/json" }};
  const body = JSON.stringify({{ raw: '{{"autosave": false}}' }});
  return fetch("/lab/api/settings/{DOCUMENTS}", {{ method: "PUT", headers, body }})
    .then((r) => r.status);
}}"""


@pytest.mark.timeout(1200)
@pytest.mark.long("six minutes of real idleness: parking/test_watch.py steps the clock")
def test_j1b_an_idle_lab_is_warned_extended_and_parked_by_its_policy_and_resumes_with_its_files(
    chromium: Any, simulated: Portal
) -> None:
    with simulated.api(simulated.token("ann")) as api:
        said = {"name": "idler", "gpus": 1, "cpu_milli": 500, "memory_mib": 1024}
        made = ok(api.post(LIST, json=said)).json()
        one = f"{LIST}/{made['id']}"
        poll(lambda: ok(api.get(one)).json()["status"]["phase"] == "running", within_s=180)
        simulated.shell(SHORT)
        ann = Visitor(chromium, simulated)
        ann.sign_in("ann")
        page = ann.page
        page.goto(f"{simulated.url}/projects/demo/workspaces/{made['id']}/")
        opens = page.get_by_role("link", name="Open", exact=True).first
        page.goto(opens.get_attribute("href") or "")
        address = open_lab(page)
        assert page.evaluate(WRITE) == 201
        assert page.evaluate(NO_AUTOSAVE) == 204
        page.goto(f"{address}/lab/tree/kept.txt")
        editor = page.locator(".jp-FileEditor .cm-content")
        editor.wait_for(timeout=LAB_WITHIN_MS)
        editor.click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(UNSAVED)
        assert page.evaluate(READ) == "kept"

        warning = page.locator(".Toastify__toast", has_text="It is parked then.")
        expect(warning).to_contain_text("No kernel, processor or GPU", timeout=400_000)
        expect(warning).to_contain_text(re.compile(r"[01]:\d\d"))
        warning.get_by_role("button", name="1 minute more").click()
        expect(warning).to_have_count(0)
        expect(warning).to_contain_text(re.compile(r"0:\d\d"), timeout=200_000)  # told anew
        poll(
            lambda: ok(api.get(one)).json()["status"]["phase"] == "stopped",
            within_s=400,
            every_s=1,
        )
        parked = ok(api.get(one)).json()
        assert parked["status"]["reason"] == "parked"
        page.goto(f"{simulated.url}/projects/demo/workspaces/{made['id']}/")
        expect(page.locator("#state")).to_contain_text("Parked; resume any time")
        holds = "from clusters.models import Hold; answer = Hold.objects.count()"
        assert simulated.shell(holds) == 0

        page.get_by_role("button", name="Resume", exact=True).first.click()
        poll(lambda: ok(api.get(one)).json()["status"]["phase"] == "running", within_s=180)
        page.goto(address)
        expect(editor).to_have_text(UNSAVED, timeout=LAB_WITHIN_MS)  # as it was left
        assert page.evaluate(READ) == UNSAVED  # saved by Lab's extension before the end


def is_back(row: Any) -> bool:
    seen = row["status"]["observed_generation"] == row["generation"]
    return bool(seen and row["status"]["phase"] == "running" and row["spec"]["gpus"] == 1)
