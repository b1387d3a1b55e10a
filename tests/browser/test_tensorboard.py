"""TensorBoard of a run, as a person sees it: one press on the run's page, and a curve."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PASSWORD
from tests.browser.test_two_clicks import Visitor
from tests.jobs.test_real_tensorboard import api, portal, run, until  # noqa: F401 - fixtures
from tests.support.portal import Portal

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.timeout(300)]

WITHIN_MS = 60_000


@pytest.fixture
def ann(chromium: Browser, portal: Portal) -> Iterator[Page]:  # noqa: F811
    portal.shell(
        "from accounts.models import User\n"
        f"user = User.objects.get(username='admin'); user.set_password({PASSWORD!r})\n"
        "user.save(); answer = True"
    )
    visitor = Visitor(chromium, portal)
    visitor.sign_in("admin")
    yield visitor.page
    visitor.context.close()


def test_one_press_shows_the_scalar_that_a_program_wrote(
    ann: Page,
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
