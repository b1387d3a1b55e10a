"""A job as a person has one: the form, its state and its log as they change, with real processes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.test_two_clicks import Visitor
from tests.support.portal import Portal

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.timeout(900)]

WITHIN_MS = 180_000


@pytest.mark.parametrize("portal", ["machine"], indirect=True)
def test_from_the_form_to_a_log_that_grows_and_a_job_that_has_succeeded(
    chromium: Browser, portal: Portal, people: dict[str, str]
) -> None:
    ann = Visitor(chromium, portal)
    ann.sign_in(people["owner"])
    page = ann.page
    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(page.get_by_text("A job runs a program on one or several replicas")).to_be_visible()
    page.get_by_role("link", name="Run a job").first.click()
    page.get_by_label("Name", exact=True).fill("grows")
    page.get_by_label("Command").fill("bash -c 'echo begun; sleep 15; echo over'")
    page.get_by_label("Replicas", exact=True).fill("2")
    plan = page.locator("#plan")
    expect(plan.get_by_text("Starts now")).to_be_visible(timeout=WITHIN_MS)
    plan.get_by_text("The same as a command").click()
    expect(plan).to_contain_text("berth job run --project demo --name grows")
    page.get_by_role("button", name="Start", exact=True).click()

    # its own page follows it; nothing is loaded again
    expect(page.get_by_role("heading", name="grows", level=1)).to_be_visible(timeout=WITHIN_MS)
    page.evaluate("window.kept = 1")
    expect(page.locator(".state-words").get_by_text("Running")).to_be_visible(timeout=WITHIN_MS)
    expect(page.locator("#replicas-title + *")).to_contain_text("2\N{NO-BREAK SPACE}Running")
    assert page.evaluate("window.kept") == 1

    # the log of the replica that is chosen, as it is written
    page.get_by_role("link", name="Log of replica 1").click()
    expect(page.get_by_label("Log of", exact=True)).to_have_value("1")
    log = page.get_by_role("log")
    expect(log).to_have_text(re.compile("begun"), timeout=WITHIN_MS)
    page.evaluate("window.kept = 1")
    expect(log).to_have_text(re.compile("begun\\s+over"), timeout=WITHIN_MS)
    expect(page.locator("#log-state")).to_have_text("It ended here", timeout=WITHIN_MS)
    expect(page.locator("#head").get_by_text("Succeeded")).to_be_visible(timeout=WITHIN_MS)
    assert page.evaluate("window.kept") == 1

    # what it wrote and how each ended stays
    page.get_by_role("link", name="Overview").click()
    expect(page.locator(".state-words").get_by_text("Succeeded")).to_be_visible()
    expect(page.get_by_role("cell", name="Ended well")).to_have_count(2)
    page.get_by_role("link", name="Log of replica 0").click()
    expect(log).to_have_text(re.compile("begun\\s+over"))
