"""A change made by another process reaches an open page by itself."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools import screens

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(screens.CHROMIUM).exists(), reason="Chromium is not installed"),
]

STOP = """
import django
django.setup()
from notebooks.models import Workspace
from runtime import bus
row = Workspace.objects.get(name="annotations")
Workspace.objects.filter(pk=row.pk).update(phase="failed", name="seen at once")
bus.publish(["operators"], {"kind": "workspace", "uid": str(row.uid)})
"""


@pytest.fixture(scope="module")
def portal() -> Iterator[screens.Portal]:
    with screens.portal() as running:
        yield running


def test_a_list_refreshes_itself_and_keeps_the_focus(portal: screens.Portal) -> None:
    with screens.browser() as chromium:
        context = chromium.new_context(viewport=screens.WIDE)
        screens.sign_in(context, portal, "olga")
        page: Any = context.new_page()
        with page.expect_request(lambda request: "/events/stream" in request.url):
            screens.open_page(page, f"{portal.url}/console/workspaces/")
        page.focus("#filter_phase")
        subprocess.run(
            [sys.executable, "-c", STOP], env=portal.env, cwd=screens.ROOT, check=True, timeout=60
        )
        page.wait_for_selector("#list >> text=seen at once", timeout=10_000)
        assert page.evaluate("document.activeElement.id") == "filter_phase"
        context.close()
