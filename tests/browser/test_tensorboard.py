"""TensorBoard of a run, as a person sees it: one press on the run's page, and a curve."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_outputs import ann  # noqa: F401 - a fixture
from tests.jobs.test_real_tensorboard import api, portal, run, until  # noqa: F401 - fixtures
from tests.support.portal import Portal

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.timeout(300)]

WITHIN_MS = 60_000


def test_one_press_shows_the_scalar_that_a_program_wrote(
    ann: Page,  # noqa: F811
    api: httpx.Client,  # noqa: F811
    portal: Portal,  # noqa: F811
) -> None:
    job = run(api, "curve", "5", "0.1", output="volume:shared/kept")
    until(
        lambda: api.get(f"projects/demo/jobs/{job}").json(),
        lambda row: row["status"]["state"] == "succeeded",
    )
    ann.goto(f"{portal.url}/projects/demo/jobs/{job}/artifacts/")
    expect(ann.locator("#artifact-files").get_by_text("tfevents")).to_be_visible(timeout=WITHIN_MS)
    ann.goto(f"{portal.url}/projects/demo/jobs/{job}/")
    ann.get_by_role("button", name="Open TensorBoard").click()
    # its page opens by itself once it runs
    expect(ann).to_have_title("TensorBoard", timeout=WITHIN_MS)
    expect(ann.get_by_text("loss").first).to_be_visible(timeout=WITHIN_MS)
    expect(ann.locator("scalar-card svg").first).to_be_visible(timeout=WITHIN_MS)
