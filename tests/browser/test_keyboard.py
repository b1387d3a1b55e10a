"""The launch form by keyboard alone: what has the focus is seen, and Escape gives it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from benchmarks.lib import poll
from tests.browser.pictured import portal as portal  # noqa: PLC0414 - a fixture
from tools import screens

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(screens.CHROMIUM).exists(), reason="Chromium is not installed"),
]

SCROLLED_WITHIN_S = 30.0
UNDER_THE_FOOT = """() => {
  const foot = document.querySelector('.launch-foot'), field = document.activeElement;
  if (!field.closest('.launch-form') || foot.contains(field)) return null;
  const parts = getComputedStyle(foot).display === 'contents'
    ? [foot.querySelector('.plan > :first-child'), foot.lastElementChild] : [foot];
  const top = Math.min(...parts.map((part) => part.getBoundingClientRect().top));
  const box = field.getBoundingClientRect();
  return {name: field.name || field.innerText, seen: box.bottom <= top + 2 && box.top >= 0};
}"""


@pytest.fixture
def page(portal: screens.Portal, chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(locale="en-US")
    screens.sign_in(context, portal, "alice")
    yield context.new_page()
    context.close()


def is_seen(field: dict[str, Any] | None) -> bool:
    return field is None or field["seen"]


@pytest.mark.parametrize("size", [screens.WIDE, screens.NARROW], ids=["wide", "narrow"])
def test_no_field_has_the_focus_under_the_foot_of_the_launch_form(
    portal: screens.Portal, page: Any, size: dict[str, int]
) -> None:
    page.set_viewport_size(size)
    page.goto(f"{portal.url}/projects/vision/workspaces/launch/", wait_until="load")
    page.evaluate("document.querySelectorAll('.launch-less').forEach((part) => part.open = true)")
    page.focus("[name=name]")
    told = []
    for _ in range(34):
        page.keyboard.press("Tab")
        # asked from here: the page's policy lets nothing be evaluated later than at once
        poll(lambda: is_seen(page.evaluate(UNDER_THE_FOOT)), within_s=SCROLLED_WITHIN_S)
        told.append(page.evaluate(UNDER_THE_FOOT))
    assert {"cluster", "time_limit_minutes", "env"} <= {field["name"] for field in told if field}


GROW = """([where, height]) => {
  const more = document.createElement('p');
  more.style.height = height;
  document.querySelector(where).prepend(more);
}"""
# A note or a finding that is answered late; a plan with many sentences.
GROWN = {"page": ["main", "12rem"], "plan": [".plan > :first-child", "20rem"]}


@pytest.mark.parametrize("what", GROWN)
@pytest.mark.parametrize("size", [screens.WIDE, screens.NARROW], ids=["wide", "narrow"])
def test_a_field_with_the_focus_stays_above_the_foot_when_this_grows(
    portal: screens.Portal, page: Any, size: dict[str, int], what: str
) -> None:
    page.set_viewport_size(size)
    page.goto(f"{portal.url}/projects/vision/workspaces/launch/", wait_until="load")
    for field in page.locator(".launch-form :is(input, select):visible").all():
        before = page.evaluate("document.activeElement.name")
        field.evaluate("(field) => field.focus({ preventScroll: true })")
        if not is_seen(page.evaluate(UNDER_THE_FOOT)):
            break
    page.focus(f"[name={before}]")  # the last one that is in sight
    assert is_seen(page.evaluate(UNDER_THE_FOOT))
    page.evaluate(GROW, GROWN[what])
    poll(lambda: is_seen(page.evaluate(UNDER_THE_FOOT)), within_s=SCROLLED_WITHIN_S)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    poll(lambda: is_seen(page.evaluate(UNDER_THE_FOOT)), within_s=SCROLLED_WITHIN_S)


def test_escape_closes_the_form_of_a_launch_and_gives_the_focus_back(
    portal: screens.Portal, page: Any
) -> None:
    page.goto(portal.url, wait_until="load")
    opener = page.locator(".page-actions a").first
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#launch-panel [name=name]")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#launch-panel")).to_be_hidden()
    expect(opener).to_be_focused()


def test_rows_are_chosen_kept_and_acted_on_by_keyboard(portal: screens.Portal, page: Any) -> None:
    page.set_viewport_size(screens.WIDE)
    page.goto(f"{portal.url}/projects/vision/workspaces/", wait_until="load")
    stop = page.get_by_role("button", name="Stop the chosen")
    expect(stop).to_be_disabled()
    page.locator(".row-mark").first.focus()
    page.keyboard.press("Space")
    expect(page.locator(".bulk-count")).to_have_text("1 chosen")
    with page.expect_response(lambda answer: answer.url.endswith("/workspaces/")):
        page.evaluate("htmx.trigger('#work', 'live')")  # the list refreshes itself
    expect(page.locator(".row-mark").first).to_be_checked()
    expect(page.locator(".row-mark:checked")).to_have_count(1)
    menu = page.locator(".row-menu > button").first
    menu.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".row-menu .dropdown-item").first).to_be_focused()
    page.keyboard.press("Escape")
    page.get_by_label("Choose all on this page").check()
    stop.press("Enter")
    page.wait_for_url("**/workspaces/act/**")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Stop")
