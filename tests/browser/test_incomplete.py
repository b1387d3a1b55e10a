"""A page whose scripts don't all arrive says so."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.support.portal import Portal

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.timeout(600)]


@pytest.mark.parametrize("lost", ["**/js/app.js", "**/js/time.js"], ids=["itself", "its import"])
def test_a_script_that_does_not_arrive_is_said_and_the_page_can_be_loaded_again(
    lost: str, chromium: Browser, portal: Portal
) -> None:
    context = chromium.new_context(locale="en-US")
    page = context.new_page()
    page.route(lost, lambda route: route.abort())
    page.goto(portal.url)
    note = page.get_by_role("alert").filter(has_text="A part of this page did not arrive")
    expect(note).to_be_visible()
    page.unroute(lost)
    note.get_by_role("link", name="Load it again").click()
    expect(page.locator("#incomplete")).to_be_hidden()
    expect(page.get_by_label("Password", exact=True)).to_be_visible()
    context.close()
