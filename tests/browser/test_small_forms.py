"""Forms that a script makes easier: refused ones, time zones, another kind of credential."""

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
    context = chromium.new_context(locale="en-US", timezone_id="Asia/Tokyo")
    screens.sign_in(context, portal, "alice")
    yield context.new_page()
    context.close()


def test_the_browsers_own_time_zone_is_one_press(portal: screens.Portal, page: Any) -> None:
    page.goto(f"{portal.url}/settings/profile", wait_until="load")
    zone = page.locator("[name=timezone]")
    zone.fill("Europe/Berlin")
    page.locator("[name=timezone] + button").click()
    expect(zone).to_have_value("Asia/Tokyo")
    expect(page.locator("[name=timezone] + button")).to_be_hidden()


def test_another_kind_of_credential_changes_the_form_only(
    portal: screens.Portal, page: Any
) -> None:
    page.goto(f"{portal.url}/settings/credentials", wait_until="load")
    page.evaluate("window.isTheSamePage = true")
    page.get_by_role("link", name="Store a credential").click()
    form = page.locator("#store")
    bar = page.locator(".topbar").bounding_box()
    box = form.bounding_box()
    assert box["y"] >= bar["y"] + bar["height"]
    page.locator("#store [name=name]").fill("My own")
    git = page.locator("#store nav a[href*='kind=git']")
    git.click()
    expect(git).to_have_attribute("aria-current", "true")
    expect(page.locator("#store [name=name]")).to_have_value("My own")
    assert page.evaluate("window.isTheSamePage") is True


def test_each_choice_of_a_job_shows_the_fields_that_it_alone_has(
    portal: screens.Portal, page: Any
) -> None:
    page.goto(f"{portal.url}/projects/vision/jobs/new", wait_until="load")
    page.locator(".launch-less:has([name=after_loss]) > summary").click()
    servers, least = page.locator("[name=server_cpu]"), page.locator("[name=min_replicas]")
    expect(servers).to_be_hidden()
    expect(least).to_be_hidden()
    page.locator("[name=after_loss][value=fewer]").check()
    expect(least).to_be_visible()
    page.locator("[name=framework][value=tensorflow]").check()
    expect(servers).to_be_visible()
    expect(least).to_be_visible()
    page.locator("[name=output]").fill("results")
    expect(page.locator("#plan")).to_contain_text("Output: Write it like gs://bucket/folder")


def test_a_wrongly_typed_name_opens_its_question_again(portal: screens.Portal, page: Any) -> None:
    page.goto(f"{portal.url}/projects/vision/settings", wait_until="load")
    page.locator("[popovertarget=delete-project]").first.click()
    sheet = page.locator("#delete-project")
    sheet.locator("input[name=confirm]").fill("not its name")
    sheet.locator("form").evaluate("(form) => form.submit()")  # past the script that holds it back
    page.wait_for_load_state("load")
    expect(sheet).to_be_visible()
    expect(sheet.get_by_role("alert")).to_be_visible()
    expect(sheet.locator("input[name=confirm]")).to_be_focused()


@pytest.mark.parametrize(
    ("new", "typed", "wrong"),
    [
        ("jobs/new", {"image": "", "output": "results"}, "output"),
        ("batch-predictions/new", {"model": "digits", "output": "s3://x/y"}, "input"),
        ("endpoints/new", {"name": "of-nothing", "model": "nothing"}, "model"),
        ("experiments/new", {"name": "rates"}, "metric"),
    ],
)
def test_a_form_that_was_refused_begins_at_what_is_wrong_in_sight(
    portal: screens.Portal, page: Any, new: str, typed: dict[str, str], wrong: str
) -> None:
    page.set_viewport_size({"width": 1024, "height": 500})
    page.goto(f"{portal.url}/projects/vision/{new}", wait_until="load")
    for name, value in typed.items():
        page.evaluate("([n, v]) => {document.getElementById(`id_${n}`).value = v}", [name, value])
    page.locator("main form[method=post]").last.evaluate("(form) => form.submit()")
    page.wait_for_load_state("load")
    expect(page.locator(f"#id_{wrong}")).to_be_focused()
    bar, box = (page.locator(one).bounding_box() for one in (".topbar", f"#id_{wrong}"))
    assert bar["y"] + bar["height"] <= box["y"] <= 500 - box["height"]


def test_the_page_of_the_api_is_dark_where_the_others_are(
    portal: screens.Portal, page: Any
) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(f"{portal.url}/api/docs", wait_until="load")
    colour = "getComputedStyle(document.querySelector('.api-docs')).backgroundColor"
    expect(page.locator("html")).to_have_class("dark-mode")
    assert page.evaluate(colour) != "rgb(255, 255, 255)"


def test_parameters_of_a_search_are_added_and_removed_by_keyboard_without_a_script(
    portal: screens.Portal, chromium: Any
) -> None:
    context = chromium.new_context(locale="en-US", java_script_enabled=False)
    screens.sign_in(context, portal, "alice")
    page = context.new_page()
    page.goto(f"{portal.url}/projects/vision/experiments/new")
    page.locator("#id_name").fill("kept")
    page.get_by_role("button", name="Add a parameter").press("Enter")
    page.locator("[name=parameters-1-name]").fill("layers")
    page.locator("[name=parameters-1-type]").select_option("int")
    page.get_by_role("button", name="Remove parameter 1").press("Enter")
    expect(page.locator(".search-parameter")).to_have_count(1)
    expect(page.locator("[name=parameters-0-name]")).to_have_value("layers")
    expect(page.locator("#id_name")).to_have_value("kept")
    page.locator("#id_name").press("Enter")  # begins it: the job and the bounds are not whole
    expect(page.locator("#id_metric")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("[name=parameters-0-name]")).to_have_value("layers")
    context.close()
