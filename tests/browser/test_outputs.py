"""What a job leaves, as a person sees it: asked for, copied, refused by the store, mended, copied."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PASSWORD
from tests.browser.test_two_clicks import Visitor
from tests.jobs.test_real_outputs import api, portal, store  # noqa: F401 - fixtures
from tests.support.portal import Portal
from tests.support.stores import RcloneS3, run_client

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.timeout(600)]

WITHIN_MS = 120_000
LEFT = ("accuracy.txt", "_BERTH_COMPLETE")


@pytest.fixture
def ann(chromium: Browser, portal: Portal) -> Iterator[Page]:  # noqa: F811
    """Admin of the demonstration, who owns its project; with a password to sign in."""
    portal.shell(
        "from accounts.models import User\n"
        f"user = User.objects.get(username='admin'); user.set_password({PASSWORD!r})\n"
        "user.save(); answer = True"
    )
    visitor = Visitor(chromium, portal)
    visitor.sign_in("admin")
    yield visitor.page
    visitor.context.close()


def submit(page: Page, portal: Portal, name: str, bucket: str) -> None:  # noqa: F811
    page.goto(f"{portal.url}/projects/demo/jobs/new/")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Command").fill("bash -c 'echo 0.9 > $BERTH_OUTPUT/accuracy.txt; sleep 2'")
    page.get_by_label("Output", exact=True).fill(f"s3://{bucket}/results")
    page.get_by_role("button", name="Start", exact=True).click()
    heading = page.get_by_role("heading", name=name, level=1)
    expect(heading).to_be_visible(timeout=WITHIN_MS)
    page.get_by_role("link", name="Artifacts").click()


def test_from_the_form_to_artifacts_and_a_bucket_that_denies_and_is_mended(
    ann: Page,
    api: httpx.Client,  # noqa: F811
    portal: Portal,  # noqa: F811
    store: RcloneS3,  # noqa: F811
) -> None:
    bucket = store.make_bucket("browser")
    submit(ann, portal, "leaves", bucket)
    card = ann.locator("#artifacts")
    expect(card.get_by_text("Complete")).to_be_visible(timeout=WITHIN_MS)  # without a reload
    expect(card.get_by_role("cell", name="4 B")).to_be_visible()

    store.change_keys()
    submit(ann, portal, "denied", bucket)
    expect(card.get_by_text("Not copied")).to_be_visible(timeout=WITHIN_MS)
    expect(card.get_by_role("alert")).to_contain_text("The store refused the credential.")
    (lake,) = api.get("projects/demo/credentials").json()["results"]
    keys = {"access_key": store.keys.access, "secret_key": store.keys.secret}
    assert api.post(f"projects/demo/credentials/{lake['id']}/rotate", json=keys).is_success
    card.get_by_role("button", name="Try again").click()
    ann.get_by_role("link", name="Artifacts").click()
    expect(card.get_by_text("Complete")).to_be_visible(timeout=WITHIN_MS)
    copied = card.get_by_text("s3://browser/results/denied-").inner_text()
    key = copied.removeprefix(f"s3://{bucket}/")
    asked = [{"do": "get", "bucket": bucket, "key": f"{key}{name}"} for name in LEFT]
    assert all(run_client(store, asked))

    # a small one is looked at where it was written
    card.get_by_role("link", name="accuracy.txt").click()
    expect(ann).to_have_url(re.compile(r"/files/#job-outputs/denied-"))
    expect(ann.get_by_text("accuracy.txt")).to_be_visible(timeout=WITHIN_MS)
