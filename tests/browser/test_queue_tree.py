"""The tree of queues in a browser: a number is typed, its effect is read, then it is saved."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.pictured import portal as portal  # noqa: PLC0414 - a fixture
from tools import screens

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(screens.CHROMIUM).exists(), reason="Chromium is not installed"),
]


def test_the_effect_of_a_number_is_read_before_it_is_saved(
    portal: screens.Portal, chromium: Any
) -> None:
    context = chromium.new_context(viewport=screens.WIDE)
    screens.sign_in(context, portal, "olga")
    page = context.new_page()
    page.goto(f"{portal.url}/console/queues/?on=local/h100-80")
    guaranteed = page.get_by_label("Guaranteed to Protein folding")
    effect = page.locator("#effect")
    expect(effect).to_contain_text("Change a number")
    guaranteed.fill("6")
    guaranteed.press("Tab")  # the keyboard alone
    expect(effect).to_contain_text("1 is asked to give back")
    expect(effect).to_contain_text("fold-17")
    expect(guaranteed).to_have_value("6")
    page.get_by_label("Most that Protein folding may hold").fill("2")
    page.keyboard.press("Tab")
    expect(effect).to_contain_text("must not be less than what is guaranteed")
    page.get_by_label("Most that Protein folding may hold").fill("")
    page.keyboard.press("Tab")
    expect(effect).to_contain_text("1 is asked to give back")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#toasts")).to_contain_text("Saved")
    expect(guaranteed).to_have_value("6")
    page.get_by_role("link", name="Changes").click()
    first = page.locator(".list-group-item").first
    expect(first).to_contain_text("local/h100-80 guaranteed: 0 → 6")
    first.locator("summary").click()
    expect(first).to_contain_text("cell tracking")
    context.close()


def test_an_organisation_is_moved_and_deleted_by_keyboard(
    portal: screens.Portal, chromium: Any
) -> None:
    context = chromium.new_context(viewport=screens.WIDE)
    screens.sign_in(context, portal, "olga")
    page = context.new_page()
    page.goto(f"{portal.url}/console/queues/new")
    page.get_by_label("Name").fill("Summer school")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Summer school").press("Enter")
    page.get_by_label("Stands below").select_option(label="Life sciences")
    page.get_by_role("button", name="What would follow?").press("Enter")
    expect(page.locator("#effect")).to_contain_text("Nobody starts")
    expect(page.get_by_label("Stands below")).to_have_value(
        page.get_by_role("option", name="Life sciences").get_attribute("value") or ""
    )
    page.get_by_role("button", name="Save").press("Enter")
    page.get_by_role("link", name="Summer school").press("Enter")
    page.get_by_role("button", name="Delete").first.press("Enter")
    page.get_by_label("to confirm").fill("Summer school")
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("is deleted")
    expect(page.get_by_role("link", name="Summer school")).to_have_count(0)
    context.close()
