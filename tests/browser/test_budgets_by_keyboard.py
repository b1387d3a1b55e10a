"""Budgets and webhooks by keyboard alone: made, changed, deleted; what is wrong gets the focus."""

from __future__ import annotations

from collections.abc import Iterator
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
TABS = 80  # of the keyboard from the top of a page to what is sought, at most


@pytest.fixture
def page(portal: screens.Portal, chromium: Any, request: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport=screens.WIDE, locale="en-US")
    screens.sign_in(context, portal, request.param)
    yield context.new_page()
    context.close()


def tab_to(page: Any, what: Any) -> None:
    """Press Tab until ``what`` has the focus, and see that it is shown to have it."""
    for _ in range(TABS):
        page.keyboard.press("Tab")
        if what.evaluate("(one) => one === document.activeElement"):
            break
    expect(what).to_be_focused()
    drawn = "(one) => { const s = getComputedStyle(one); return s.outlineStyle + s.boxShadow; }"
    assert what.evaluate(drawn) != "nonenone"


@pytest.mark.parametrize("page", ["olga"], indirect=True)
def test_a_budget_is_made_changed_and_deleted_by_keyboard(
    portal: screens.Portal, page: Any
) -> None:
    page.goto(f"{portal.url}/console/budgets/")
    tab_to(page, page.get_by_role("link", name="New budget"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_label("Of", exact=True))
    page.keyboard.type("Autumn")
    tab_to(page, page.get_by_label("GPU-hours"))
    page.keyboard.type("-3")
    page.keyboard.press("Enter")
    hours = page.get_by_label("GPU-hours")
    assert hours.evaluate("(one) => !one.validity.valid || one.matches('.is-invalid')")
    hours.fill("120")
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("is saved")
    tab_to(page, page.get_by_role("link", name="Autumn school 2025"))
    page.keyboard.press("Enter")
    delete = page.get_by_role("button", name="Delete").first
    tab_to(page, delete)
    page.keyboard.press("Enter")
    typed = page.get_by_label("to confirm")
    expect(typed).to_be_focused()
    page.keyboard.press("Escape")
    expect(delete).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("Autumn school 2025")
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("is deleted")


@pytest.mark.parametrize("page", ["alice"], indirect=True)
def test_a_webhook_is_made_and_tested_by_keyboard(portal: screens.Portal, page: Any) -> None:
    page.goto(f"{portal.url}/projects/vision/webhooks/")
    tab_to(page, page.get_by_label("Name"))
    page.keyboard.type("keyboard")
    page.keyboard.press("Tab")
    page.keyboard.type("https://10.0.0.1/x")
    page.keyboard.press("Enter")
    expect(page.get_by_text("It is not at a public address")).to_be_visible()
    expect(page.get_by_label("Name")).to_have_value("keyboard")
    page.get_by_label("Address").fill("https://hooks.example.com/services/T0/wq8rT2LzXk91")
    choose = page.get_by_text("Choose what it is told")
    tab_to(page, choose)
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_label("A job failed"))
    page.keyboard.press("Space")
    tab_to(page, page.get_by_role("button", name="Make webhook"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("whsec_").first).to_be_visible()
    tab_to(page, page.get_by_role("button", name="Send a test"))
    page.keyboard.press("Enter")
    expect(page.locator("#deliveries")).to_contain_text("tests the webhook")
    expect(page.get_by_text("whsec_")).to_have_count(0)
