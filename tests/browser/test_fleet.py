"""The fleet by pointer and keyboard: what one cell says, the past, and that axe finds nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.pictured import portal as portal  # noqa: PLC0414 - a fixture
from tests.browser.test_axe import AT_ONCE, AXE, problems, put_on
from tools import screens

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(screens.CHROMIUM).exists(), reason="Chromium is not installed"),
]


@pytest.fixture
def page(portal: screens.Portal, chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(locale="en-US", viewport=screens.WIDE)
    screens.sign_in(context, portal, "alice")
    yield context.new_page()
    context.close()


def test_a_cell_says_in_words_what_it_is_by_keyboard_and_by_pointer(
    portal: screens.Portal, page: Any
) -> None:
    screens.open_page(page, f"{portal.url}/fleet/?cluster=east")
    card = page.locator("#fleet-card")
    expect(card).to_be_hidden()
    page.focus("#fleet")
    page.keyboard.press("ArrowRight")
    expect(card).to_be_visible()
    expect(card).to_contain_text("East")
    expect(card).to_contain_text("Utilisation")
    first = card.inner_text()
    page.keyboard.press("ArrowDown")
    assert card.inner_text() != first
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    page.hover("#fleet-canvas", position={"x": 6, "y": 42})
    expect(card).to_be_visible()


def test_the_colour_stays_in_the_address_and_the_slider_shows_the_past(
    portal: screens.Portal, page: Any
) -> None:
    screens.open_page(page, f"{portal.url}/fleet/?cluster=east")
    page.select_option("#fleet-colour", "owner")
    assert "colour=owner" in page.url
    assert "cluster=east" in page.url
    expect(page.locator("#fleet-legend")).to_contain_text("Free")
    with page.expect_response(lambda answer: "at=" in answer.url) as told:
        page.focus("#fleet-at")
        page.keyboard.press("ArrowLeft")
    assert told.value.ok
    expect(page.locator("#fleet-when")).not_to_have_text("now")
    page.select_option("#id_kind", index=1)
    page.click(".filters [type=submit]")
    assert "colour=owner" in page.url, "a filter keeps it"
    assert page.locator("#fleet-colour").input_value() == "owner"


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (npm ci)")
def test_axe_finds_nothing_in_cells_and_table(portal: screens.Portal, chromium: Any) -> None:
    """Each page is opened once and changed under its reader: to open it costs more than to look."""
    context = chromium.new_context(locale="en-US", bypass_csp=True)
    context.add_init_script(path=AXE)
    screens.sign_in(context, portal, "alice")
    page = context.new_page()
    wrong = {}
    for url in ("/fleet/", "/fleet/?view=table", "/fleet/?kind=nothing"):
        put_on(page, "light", screens.WIDE)
        screens.open_page(page, portal.url + url)
        page.evaluate(AT_ONCE)
        for theme, size in itertools.product(("light", "dark"), (screens.WIDE, screens.NARROW)):
            put_on(page, theme, size)
            is_within = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            found = (
                problems(page, theme),
                "" if is_within else "something stands out to the right",
            )
            if any(found):
                wrong[url, theme, size["width"]] = found
    context.close()
    assert wrong == {}
