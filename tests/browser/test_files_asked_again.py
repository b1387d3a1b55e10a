"""The files page in a real Chromium where it has no turn yet, and where it is opened for its sums."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Route, expect

from tests.browser.test_files import KEEP_WHAT_IS_SAID, Visit, environment, visit, volume

__all__ = ["environment", "visit", "volume"]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.real,
    pytest.mark.long("faults of a list in a browser; the file browser: browser/test_files.py"),
]


def test_a_list_that_has_no_turn_yet_is_asked_again_and_that_is_said(
    visit: Visit,
) -> None:
    page, refused = visit.page, []

    def busy(route: Route) -> None:
        if len(refused) == 2:
            route.continue_()
            return
        refused.append(route.request.url)
        # its headers let the page read it; only browsers know every name below localhost
        there = route.request.url.replace("//gate.nb.localhost", "//localhost")
        answer = route.fetch(url=there)
        said = {"code": "busy", "detail": "Too much is being looked through at once."}
        route.fulfill(response=answer, status=503, body=json.dumps(said))

    page.evaluate(KEEP_WHAT_IS_SAID)
    page.route("**/list?*", busy)
    page.get_by_role("button", name="New folder").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("sub")
    page.keyboard.press("Enter")
    expect(visit.row("sub")).to_be_visible(timeout=60_000)
    page.unroute("**/list?*", busy)
    assert len(refused) == 2
    waits = "Much of this volume is being looked through; yours comes next…"
    assert waits in page.evaluate("said")
    expect(page.locator("#browser-state")).not_to_contain_text(waits)
    expect(page.locator("[data-note=error]")).to_have_count(0)


def test_the_way_from_the_page_of_usage_shows_what_takes_the_room(
    visit: Visit,
) -> None:
    page = visit.page
    page.goto(page.url.partition("files/")[0] + "usage/")
    expect(page.get_by_role("heading", name="Room over time")).to_be_visible()
    page.get_by_role("link", name="Disk usage by folder").click()
    expect(page.locator("#browser-view")).to_contain_text("free", timeout=60_000)
    expect(page.locator("#browser-columns")).to_be_hidden()
    page.get_by_role("button", name="Back to the files").click()
    expect(page.locator("#browser-columns")).to_be_visible()
