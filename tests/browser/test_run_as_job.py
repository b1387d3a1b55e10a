"""J1c in a browser: from a notebook in a real JupyterLab to a job in three clicks, with its typo
caught by the smoke run, mended, run and shown.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from benchmarks.lib import poll
from tests.browser.test_two_clicks import LAB_WITHIN_MS, Visitor
from tests.jobs.test_real_notebooks import SIZE, notebook
from tests.notebooks.test_real_workspace import Jupyter
from tests.support.clustered import ok
from tests.support.portal import Portal

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.timeout(300)]

WORKSPACES = "projects/demo/workspaces"
SEEN_WITHIN_MS = 60_000
GOOD = ("import time\nfor step in range(3): print('step', step)", "6 * 7")
TYPO = (GOOD[0], "6 * * 7")


def write(lab: Any, *cells: str) -> None:
    body = {"type": "notebook", "format": "json", "content": notebook(*cells)}
    assert lab.put("api/contents/train.ipynb", json=body).status_code in {200, 201}


def test_j1c_three_clicks_from_a_notebook_to_a_job_with_its_typo_caught(
    chromium: Browser, portal: Portal, people: dict[str, str], tmp_path: Path
) -> None:
    api = portal.api(portal.token(people["owner"]))
    made = ok(api.post(WORKSPACES, json={"name": "desk", **SIZE})).json()
    one = f"{WORKSPACES}/{made['id']}"
    poll(lambda: ok(api.get(one)).json()["status"]["phase"] == "running", within_s=120, every_s=0.3)
    lab = Jupyter(portal, ok(api.get(one)).json()).client
    write(lab, *TYPO)
    script = {"type": "file", "format": "text", "content": "print(1)"}
    assert lab.put("api/contents/go.py", json=script).status_code in {200, 201}
    ann = Visitor(chromium, portal)
    ann.sign_in(people["owner"])
    ann.page.goto(f"{portal.url}/workspaces/{made['id']}/")
    expect(ann.page.get_by_role("link", name="Run as job")).to_be_visible()
    opens = ann.page.get_by_role("link", name="Open", exact=True).first
    ann.page.goto(f"{opens.get_attribute('href')}lab/tree/train.ipynb")
    press = ann.page.locator(".jp-NotebookPanel").get_by_role("button", name="Run as job")
    press.wait_for(timeout=LAB_WITHIN_MS)

    # click 1: in JupyterLab; click 2: the form has all that it needs
    with ann.context.expect_page() as opened:
        ann.click(press)
    page: Page = opened.value
    page.wait_for_url(re.compile(r"/projects/demo/jobs/new/"), timeout=SEEN_WITHIN_MS)
    expect(page.locator("#origin")).to_contain_text("It runs as “desk” does")
    expect(page.get_by_label("File", exact=True)).to_have_value("train.ipynb")
    page.screenshot(path=str(tmp_path / "form.png"), full_page=True)
    ann.click(page.get_by_role("button", name="Start", exact=True))
    assert ann.clicks == 2

    smoke = page.locator("#smoke")
    expect(smoke).to_contain_text("Cell 2 can't be run", timeout=SEEN_WITHIN_MS)
    expect(smoke).to_contain_text("SyntaxError")
    expect(page.locator("#overview")).to_contain_text("so it was not queued")
    page.screenshot(path=str(tmp_path / "typo.png"), full_page=True)

    write(lab, *GOOD)
    page.get_by_role("button", name="Run again").first.click()
    expect(smoke).to_contain_text("passed", timeout=SEEN_WITHIN_MS)
    expect(page.locator(".state-words")).to_contain_text("Succeeded", timeout=SEEN_WITHIN_MS)
    page.screenshot(path=str(tmp_path / "done.png"), full_page=True)
    page.get_by_role("link", name="Result").click()
    frame = page.frame_locator("iframe.notebook-result")
    expect(frame.get_by_text("42", exact=True).first).to_be_visible()
    expect(frame.get_by_text("step 2").first).to_be_visible()
    page.screenshot(path=str(tmp_path / "result.png"), full_page=True)
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark")
    page.screenshot(path=str(tmp_path / "result-narrow.png"), full_page=True)
    page.get_by_role("link", name="Overview").click()
    page.screenshot(path=str(tmp_path / "narrow.png"), full_page=True)
    _press_in_the_menu_of_files(ann)
    kept = lab.get("api/contents/train.run-1.ipynb").json()["content"]["cells"]
    assert kept[1]["outputs"][0]["data"]["text/plain"] == "42"


def _press_in_the_menu_of_files(ann: Visitor) -> None:
    """Of a notebook and of a script the menu of JupyterLab's file browser leads to the form."""
    for name in ("train.ipynb", "go.py"):
        ann.page.locator(".jp-DirListing-item").filter(has_text=name).click(button="right")
        with ann.context.expect_page() as opened:
            ann.page.get_by_role("menuitem", name="Run as job").click()
        opened.value.wait_for_url(re.compile(r"/projects/demo/jobs/new/"), timeout=SEEN_WITHIN_MS)
        expect(opened.value.get_by_label("File", exact=True)).to_have_value(name)
        opened.value.close()
