"""Models and endpoints by keyboard: what is chosen, moved and opened, also while pages change."""

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


@pytest.fixture
def page(portal: screens.Portal, chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport=screens.WIDE)
    screens.sign_in(context, portal, "alice")
    yield context.new_page()
    context.close()


def at(portal: screens.Portal, name: str) -> str:
    return portal.url + next(one["url"] for one in portal.pages if one["name"] == name)


def test_a_model_is_chosen_by_keyboard_and_its_size_follows(
    portal: screens.Portal, page: Any
) -> None:
    page.goto(at(portal, "endpoint-new"), wait_until="load")
    page.get_by_label("Memory in GiB", exact=True).fill("9")
    models = page.get_by_role("combobox", name="Model", exact=True)
    models.focus()
    page.keyboard.type("digits/v2")
    expect(page.locator("[name=model]")).to_have_value("digits/v2")
    expect(page.locator("[name=model]")).to_be_hidden()
    expect(page.locator("[name=cpu]")).to_have_value("1")
    expect(page.locator("[name=memory]")).to_have_value("9")  # what was typed stays
    expect(page.locator("[data-model-told]")).to_contain_text("accuracy 0.981")
    expect(page.locator("[name=name]")).to_have_attribute("placeholder", "digits")
    expect(page.locator("[name=runtime][value=tensorflow]")).to_be_disabled()
    expect(page.locator("#plan")).to_contain_text("--memory 9G")
    models.select_option("*")
    expect(page.locator("[name=model]")).to_be_focused()
    page.keyboard.type("other/v1")
    expect(page.locator("#plan")).to_contain_text("There is no such model here: other/v1.")


def test_a_share_is_moved_by_keyboard_and_outlives_a_refresh(
    portal: screens.Portal, page: Any
) -> None:
    page.goto(at(portal, "endpoint-ready"), wait_until="load")
    slider = page.locator("[data-split-slider]")
    share = str(int(slider.input_value()) + 5)
    slider.focus()
    for _press in range(5):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#split-percent")).to_have_value(share)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Set the share")).to_be_focused()
    refreshed(page, "#overview")
    expect(page.locator("#split-percent")).to_have_value(share)
    expect(page.locator("[data-split-slider]")).to_have_js_property("value", share)
    expect(page.get_by_role("button", name="Set the share")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".toasts")).to_contain_text(f"{share} % of the requests go to the canary.")


def refreshed(page: Any, part: str) -> None:
    """Have the part of the page ask for itself, and wait until it has been replaced."""
    page.evaluate(
        """(part) => new Promise((done) => {
          document.querySelector(part).before_ = true;
          document.addEventListener("htmx:afterSettle", () => setTimeout(done), { once: true });
          htmx.trigger(part, "live");
        })""",
        part,
    )
    assert page.evaluate("(part) => document.querySelector(part).before_ !== true", part)


def test_an_open_question_is_not_closed_by_a_refresh_and_escape_closes_it(
    portal: screens.Portal, page: Any
) -> None:
    page.goto(at(portal, "endpoint-ready"), wait_until="load")
    page.get_by_role("button", name="Promote").focus()
    page.keyboard.press("Enter")
    question = page.locator("#promote")
    expect(question).to_be_visible()
    page.evaluate("htmx.trigger('#overview', 'live')")
    page.wait_for_timeout(700)
    expect(question).to_be_visible()
    page.keyboard.press("Escape")
    expect(question).to_be_hidden()


def test_versions_that_are_marked_stay_so_and_a_model_goes_by_its_typed_name(
    portal: screens.Portal, page: Any
) -> None:
    page.goto(at(portal, "model"), wait_until="load")
    for name in ("v1", "v2"):
        page.get_by_label(f"Compare {name}").check()
    page.locator("h1").click()
    refreshed(page, "#model")
    for name in ("v1", "v2"):
        expect(page.get_by_label(f"Compare {name}")).to_be_checked()
    page.get_by_role("button", name="Compare the chosen").click()
    expect(page.get_by_role("region", name="Compared").first).to_contain_text("0.981")
    page.goto(at(portal, "model-without-version"), wait_until="load")
    page.get_by_role("button", name="Delete").click()
    sure = page.locator("#delete-model button[type=submit]")
    expect(sure).to_be_disabled()
    page.keyboard.type("planned")
    expect(sure).to_be_enabled()


def test_tabs_of_an_endpoint_are_walked_by_keyboard(portal: screens.Portal, page: Any) -> None:
    page.goto(at(portal, "endpoint-ready"), wait_until="load")
    for name in ("Try it", "Requests", "Keys"):
        page.get_by_role("link", name=name, exact=True).first.focus()
        page.keyboard.press("Enter")
        expect(page.locator("nav [aria-current=page]", has_text=name)).to_be_visible()
