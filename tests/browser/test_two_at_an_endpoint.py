"""Two people at one endpoint: what the second sees is true, and no press means what it did not say.

Alice owns it, Mona manages the project, Vera only sees it, Dora is of another project.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pictured import portal as portal  # noqa: PLC0414 - a fixture
from tests.browser.test_live import open_live
from tests.support.django_shell import DjangoShell
from tools import screens

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(screens.CHROMIUM).exists(), reason="Chromium is not installed"),
    pytest.mark.long(
        "half a minute; what is refused by HTTP: serving/test_pages.py, serving/test_rollback.py"
    ),
]
WITHIN_MS = 30_000
MADE = """
from accounts.models import User
from common.clock import now
from projects.models import Membership, Project
from runtime.bus import publish
from serving.models import Endpoint, ModelVersion, Served
from tools.screen_serving import endpoint, seen
vision, alice = Project.objects.get(slug="vision"), User.objects.get(username="alice")
v1, v2 = (ModelVersion.objects.get(model__name="digits", name=name) for name in ("v1", "v2"))

def canary(row):
    endpoint(alice, vision, f"canary-{row.pk}-{row.generation}", v2, canary_of=row)

def changed(row, **columns):
    Endpoint.objects.filter(pk=row.pk).update(generation=row.generation + 1, **columns)
    publish([f"endpoint:{row.uid}"], {"kind": "endpoint", "uid": str(row.uid)})
"""
FIRST = """
row = endpoint(alice, vision, "by-two", v1, canary_percent=10)
vera, _ = User.objects.get_or_create(
    username="vera", defaults={"email": "vera@example.org", "password": alice.password}
)
Membership.objects.get_or_create(project=vision, user=vera, defaults={"role": "viewer"})
canary(row)
seen(row, 1)
answer = row.get_absolute_url()
"""
ROW = 'row = Endpoint.objects.get(name="by-two", project=vision)\n'
# Whoever carries it out: the duty, which does not run here.
ANOTHER_CANARY = """
Endpoint.objects.filter(canary_of=row).update(desired="absent")
changed(row)
row.refresh_from_db()
canary(row)
changed(row, canary_percent=0)
answer = True
"""
PROMOTED = """
Endpoint.objects.filter(canary_of=row).update(desired="absent")
for version, how in ((v1, "deployed"), (v2, "promoted")):
    said = {"model": str(version)}
    Served.objects.create(
        endpoint=row, launch=1, at=now(), serves=str(version), said=said, how=how, by=alice
    )
changed(row, promoting=False, canary_percent=0, version=v2, model="digits/v2")
answer = True
"""


@pytest.fixture
def shell(portal: screens.Portal, tmp_path: Path) -> Iterator[DjangoShell]:
    opened = DjangoShell(portal.env, tmp_path / "shell.log")
    yield opened
    opened.close()


@pytest.fixture
def at(portal: screens.Portal, shell: DjangoShell) -> str:
    return f"{portal.url}{shell.run(MADE + FIRST)}"


@pytest.fixture
def visit(portal: screens.Portal, chromium: Any, at: str) -> Iterator[Any]:
    contexts = []

    def open_as(name: str) -> Page:
        contexts.append(chromium.new_context(viewport=screens.WIDE))
        screens.sign_in(contexts[-1], portal, name)
        page: Page = contexts[-1].new_page()
        open_live(page, at)
        return page

    yield open_as
    for context in contexts:
        context.close()


def button(page: Page, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def told(page: Page, said: str) -> None:
    expect(page.locator("main")).to_contain_text(said, timeout=WITHIN_MS)


def test_what_the_second_sees_is_true_and_their_press_is_right_or_refused(
    portal: screens.Portal, shell: DjangoShell, at: str, visit: Any
) -> None:
    alice, mona = visit("alice"), visit("mona")
    # Mona has moved her slider, not yet pressed; Alice sets another share.
    slider = mona.locator("[data-split-slider]")
    slider.focus()
    mona.keyboard.press("ArrowRight")
    alice.locator("#split-percent").fill("40")
    button(alice, "Set the share").click()
    expect(alice.locator(".toasts")).to_contain_text("40 % of the requests go to the canary.")
    expect(mona.locator("#split-percent")).to_have_value("11")  # what she moved is hers
    button(mona, "Set the share").click()
    expect(mona.locator(".toasts")).to_contain_text("11 % of the requests go to the canary.")
    expect(alice.locator("#split-percent")).to_have_value("11", timeout=WITHIN_MS)

    # Mona is asked whether to promote; meanwhile another canary stands there.
    button(mona, "Promote").click()
    shell.run(MADE + ROW + ANOTHER_CANARY)
    expect(alice.locator("#split-percent")).to_have_value("0", timeout=WITHIN_MS)
    expect(mona.locator("#promote")).to_be_visible()
    mona.locator("#promote").get_by_role("button", name="Promote").click()
    told(mona, "It has another canary by now: look at that one first.")
    assert shell.run(MADE + ROW + "answer = row.promoting") is False

    # She has looked, and closes the question; Alice promotes that one, and Mona is told so.
    mona.keyboard.press("Escape")
    button(alice, "Promote").click()
    alice.locator("#promote").get_by_role("button", name="Promote").click()
    told(mona, "It is being promoted")
    expect(button(mona, "Promote")).to_have_count(0)
    expect(mona.locator("[data-split-slider]")).to_have_count(0)
    shell.run(MADE + ROW + PROMOTED)

    # Both go back at once: the second press does not take back what the first did.
    back = "Roll back to digits/v1"
    expect(button(mona, back)).to_be_visible(timeout=WITHIN_MS)
    expect(button(alice, back)).to_be_visible(timeout=WITHIN_MS)
    mona.route("**/state/**", lambda route: route.abort())  # her page has not heard of it yet
    button(alice, back).click()
    told(alice, "It is what was served before")
    button(mona, back).click()
    told(mona, "It has a canary: promote it or take it away first.")
    mona.unroute("**/state/**")

    # Alice deletes it while Mona looks: nothing is left to press.
    mona.goto(at)
    alice.goto(f"{at}settings/")
    button(alice, "Delete").click()
    alice.keyboard.type("by-two")
    alice.get_by_role("dialog").get_by_role("button", name="Delete").click()
    told(mona, "Being deleted")
    for name in ("Take away", "Put to sleep", "Stop", back):
        expect(button(mona, name)).to_have_count(0)


def test_who_only_sees_it_has_no_buttons_and_who_is_of_another_project_finds_nothing(
    portal: screens.Portal, chromium: Any, at: str, visit: Any
) -> None:
    vera = visit("vera")
    expect(vera.locator("#canary-title")).to_be_visible()
    for name in (
        "Promote",
        "Roll back",
        "Take away",
        "Set the share",
        "Put to sleep",
        "Stop",
        "Send",
    ):
        expect(button(vera, name)).to_have_count(0)
    expect(vera.get_by_role("link", name="Keys", exact=True)).to_have_count(0)
    context = chromium.new_context()
    screens.sign_in(context, portal, "dora")
    page = context.new_page()
    for part in ("", "keys/", "try/", "requests/", "logs/", "state/"):
        answer = page.goto(f"{at}{part}")
        assert answer.status == 404, part
    context.close()
