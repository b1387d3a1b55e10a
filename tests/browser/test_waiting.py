"""A wait that is answered, in a browser: what waits, why, until when, and what starts it sooner.

On simulated GPUs, with real JupyterLabs: one H100 is in use, an A100 is free.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from benchmarks.lib import poll
from tests.browser.conftest import PASSWORD
from tests.browser.test_axe import AT_ONCE, AXE, LOOKS, problems, put_on
from tests.browser.test_two_clicks import Visitor
from tests.support.clustered import ok
from tests.support.gpus import NO_REAL_GPUS
from tests.support.portal import Portal

pytestmark = [
    pytest.mark.browser,
    pytest.mark.real,
    pytest.mark.timeout(600),
    NO_REAL_GPUS,
    pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (npm ci)"),
]
SIMULATED = {
    "BERTH_SIMULATED_GPUS": "1xH100-80,1xA100-40",
    "BERTH_EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend",
}
RUNS_WITHIN_S = 120.0
SIZE = {"cpu_milli": 200, "memory_mib": 512, "gpus": 1}
# How long workspaces held GPUs before: what estimates go by.
PAST = """
from datetime import timedelta
from uuid import uuid4
from clusters.models import Cluster
from common.clock import now
from queues.models import Turn
at = now() - timedelta(days=1)
Turn.objects.bulk_create(
    Turn(
        cluster=Cluster.objects.get(key="local"), workload_uid=uuid4(), workload_kind="workspace",
        project_uid=uuid4(), gpus=1, asked_at=at, granted_at=at,
        ended_at=at + timedelta(minutes=30 + n),
    )
    for n in range(20)
)
answer = True
"""


@pytest.fixture(scope="module")
def simulated() -> Iterator[Portal]:
    running = Portal(SIMULATED)
    try:
        running.start()
        running.shell(
            "from accounts.models import User; from projects.models import Membership, Project\n"
            "user = User(username='ann', email='ann@example.org')\n"
            f"user.set_password({PASSWORD!r}); user.save()\n"
            "project = Project.objects.get(slug='demo')\n"
            "Membership.objects.create(project=project, user=user, role='owner')\n"
            "from clusters.services.health import health_refresh\n"
            "health_refresh(key='local')\n" + PAST
        )
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def kinds(simulated: Portal) -> list[list[str]]:
    """The names and labels of the H100 and of the A100."""
    look = "answer = [[d.flavor.name, d.flavor.label] for d in Device.objects.order_by('index')]"
    found: list[list[str]] = simulated.shell(f"from clusters.models import Device\n{look}")
    return found


@pytest.fixture(scope="module")
def waiting(simulated: Portal, kinds: list[list[str]]) -> str:
    """Two want the one H100: return the id of the second, which waits."""
    with simulated.api(simulated.token("ann")) as api:

        def launched(name: str, phase: str) -> str:
            body = {**SIZE, "name": name, "gpu_flavor": kinds[0][0]}
            made = str(ok(api.post("projects/demo/workspaces", json=body)).json()["id"])

            def is_so() -> bool:
                found = api.get(f"projects/demo/workspaces/{made}").json()["status"]
                return bool(found["phase"] == phase)

            poll(is_so, within_s=RUNS_WITHIN_S, every_s=0.2)
            return made

        launched("first", "running")
        made = launched("second", "pending")

        def is_told() -> bool:
            return bool(api.get(f"projects/demo/workspaces/{made}").json()["wait"])

        poll(is_told, within_s=RUNS_WITHIN_S, every_s=0.2)
        return made


@pytest.fixture
def ann(chromium: Any, simulated: Portal) -> Iterator[Visitor]:
    visitor = Visitor(chromium, simulated)
    visitor.context.close()
    visitor.context = chromium.new_context(locale="en-US", bypass_csp=True)
    visitor.context.add_init_script(path=AXE)
    visitor.page = visitor.context.new_page()
    visitor.sign_in("ann")
    yield visitor
    visitor.context.close()


def seen(page: Page) -> list[str]:
    """Return what is wrong in any look of the page as it is."""
    page.evaluate(AT_ONCE)
    found = []
    for theme, size in LOOKS:
        put_on(page, theme, size)
        found += [f"{theme} {size['width']}: {line}" for line in problems(page, theme)]
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > size["width"]:
            found.append(f"{theme} {size['width']}: the page is {wide} wide")
    put_on(page, *LOOKS[0])
    return found


@pytest.mark.usefixtures("waiting")
def test_home_and_the_list_say_place_and_turn_in_one_line(
    ann: Visitor, kinds: list[list[str]]
) -> None:
    said = f"Waiting for 1 × {kinds[0][0]}; position 1 in the queue. Its turn comes in "  # noqa: RUF001 - the sign
    ann.page.goto(ann.portal.url)
    row = ann.page.get_by_role("listitem").filter(has_text="second")
    expect(row).to_contain_text(said)
    assert seen(ann.page) == []
    ann.page.goto(f"{ann.portal.url}/projects/demo/workspaces/")
    row = ann.page.get_by_role("row").filter(has_text="second")
    expect(row).to_contain_text(said)
    assert seen(ann.page) == []


def test_a_wait_is_answered_and_what_ends_it_is_reached_by_the_keyboard(
    ann: Visitor, waiting: str, kinds: list[list[str]]
) -> None:
    page = ann.page
    page.goto(f"{ann.portal.url}/workspaces/{waiting}/")
    wait = page.get_by_role("group", name="The wait")
    expect(page.locator("#state")).to_contain_text(f"Waiting for 1 × {kinds[0][0]}")  # noqa: RUF001 - the sign
    expect(wait).to_contain_text("Place in line1")
    expect(wait).to_contain_text("minutes")
    expect(wait).to_contain_text("From 20 past runs.")
    sooner = wait.get_by_role("list", name="What starts it sooner").get_by_role("button")
    expect(sooner.first).to_have_text(f"1 × {kinds[1][1]} instead: starts now")  # noqa: RUF001 - the sign
    assert seen(page) == []
    reached = page.locator(":focus")
    for _press in range(60):  # with the keyboard alone, and without passing it by
        page.keyboard.press("Tab")
        if "starts now" in (reached.text_content() or ""):
            break
    expect(reached).to_contain_text("starts now")
