"""A container from the launch form: image checked, port opened, shell entered (C2, C9)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.test_two_clicks import Visitor
from tests.cluster.visitors import named
from tests.support.portal import Portal

pytestmark = [
    pytest.mark.long(
        "minutes on a cluster; the same by HTTP: cluster/test_workspaces.py, the terminal: test_gate.py"
    ),
    pytest.mark.browser,
    pytest.mark.real,
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.parametrize("portal", ["cluster"], indirect=True),
]

PULLED_WITHIN_MS = 300_000
ITS_PAGE = re.compile(r"/workspaces/(?!launch)[a-z0-9]+/")
SAID_WITHIN_MS = 60_000
PORT = 7860
# A web app that says who it is, and in which home it runs; localhost is enough for its port.
APP = f'sh -c "echo a page of mine > index.html && exec python3 -m http.server -b 127.0.0.1 {PORT}"'


def fill(form: Any, image: str) -> None:
    form.get_by_label("Container", exact=True).check()
    form.get_by_label("Name", exact=True).fill(named("demo"))
    form.get_by_label("CPU cores", exact=True).fill("0.2")
    form.get_by_label("Memory in GiB", exact=True).fill("0.5")
    form.get_by_label("Image", exact=True).fill(image)


def open_form(page: Page) -> Any:
    page.get_by_role("link", name="More options", exact=True).click()
    form = page.locator("#launch-panel form.launch-form")
    expect(form).to_be_visible()
    return form


def check(form: Any) -> Any:
    form.get_by_role("button", name="Check", exact=True).click()
    return form.locator("#image-finding")


def test_a_container_is_checked_started_opened_and_entered_from_the_page(
    chromium: Browser, portal: Portal, people: dict[str, str], devcluster: dict[str, Any]
) -> None:
    image = devcluster["images"]["tool"]["reference"]
    ann = Visitor(chromium, portal)
    ann.sign_in(people["owner"])
    form = open_form(ann.page)

    # a name that is mistyped is said before anything starts, then the right one with its digest
    fill(form, f"{image}-mistyped")
    expect(check(form)).to_contain_text("Can't be used", timeout=SAID_WITHIN_MS)
    form.get_by_label("Image", exact=True).fill(image)
    finding = check(form)
    expect(finding).to_contain_text("Found", timeout=SAID_WITHIN_MS)
    expect(finding).to_contain_text("@sha256:")

    form.get_by_role("textbox", name="Command", exact=True).fill(APP)
    form.get_by_text("Ports, shared memory, variables").click()
    form.get_by_role("textbox", name="Ports", exact=True).fill(f"{PORT} demo")
    expect(form.locator("#plan")).to_contain_text("Starts now", timeout=SAID_WITHIN_MS)
    visited: list[str] = []  # its own page may be left before anybody looks
    ann.page.on("framenavigated", lambda frame: visited.append(frame.url))
    form.get_by_role("button", name="Start", exact=True).click()

    # its page shows the way to there, then its only page opens by itself
    ann.page.wait_for_url(re.compile(r"//[a-z0-9-]+\.nb\.localhost"), timeout=PULLED_WITHIN_MS)
    expect(ann.page.get_by_text("a page of mine")).to_be_visible(timeout=SAID_WITHIN_MS)

    its_page = next(filter(ITS_PAGE.search, visited)).partition("?")[0]
    ann.page.goto(its_page)
    state = ann.page.locator("#state")
    expect(state).to_contain_text("Running", timeout=SAID_WITHIN_MS)
    port = ann.page.locator(".ports").get_by_role("link", name="demo")
    address = port.get_attribute("href") or ""
    port.click()
    expect(ann.page.get_by_text("a page of mine")).to_be_visible(timeout=SAID_WITHIN_MS)

    # nobody gets there without a sign-in
    nobody = chromium.new_context(locale="en-US").new_page()
    nobody.goto(address)
    expect(nobody.get_by_label("Password", exact=True)).to_be_visible()
    expect(nobody.get_by_text("a page of mine")).to_have_count(0)

    # a shell in the page, in the home where the page lies
    ann.page.goto(f"{its_page}terminal/")
    expect(ann.page.locator("#terminal-state")).to_have_text("Connected", timeout=SAID_WITHIN_MS)
    screen = ann.page.locator(".xterm-rows")
    expect(screen).to_contain_text("$", timeout=SAID_WITHIN_MS)  # a prompt
    ann.page.keyboard.type("cat index.html; echo $((40+2))-there\n")
    expect(screen).to_contain_text("42-there", timeout=SAID_WITHIN_MS)
    expect(screen).to_contain_text("a page of mine")

    ann.page.goto(its_page)
    ann.page.get_by_role("button", name="Stop", exact=True).click()
    expect(state).to_contain_text("Stopped", timeout=PULLED_WITHIN_MS)
