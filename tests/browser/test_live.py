"""A change made by another process reaches an open page by itself."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lib import poll
from tests.support.ports import free_port
from tools import screens

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(screens.CHROMIUM).exists(), reason="Chromium is not installed"),
]

# The request for the stream is sent before the server listens to what it is to tell.
HEARS = """(() => {
  const Real = window.EventSource;
  window.EventSource = class extends Real {
    constructor(...given) {
      super(...given);
      this.addEventListener("hello", () => { window.hears = true; });
    }
  };
})()"""
WITHIN_MS = 60_000

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
    with screens.portal(free_port()) as running:
        yield running


def run(portal: screens.Portal, code: str) -> None:
    subprocess.run(
        [sys.executable, "-c", code], env=portal.env, cwd=screens.ROOT, check=True, timeout=180
    )


def open_live(page: Any, url: str) -> None:
    """Open a page and return when it hears of changes."""
    page.add_init_script(HEARS)
    screens.open_page(page, url)
    poll(lambda: bool(page.evaluate("window.hears")), within_s=WITHIN_MS / 1000, every_s=0.1)


def test_a_list_refreshes_itself_and_keeps_the_focus(portal: screens.Portal) -> None:
    with screens.browser() as chromium:
        context = chromium.new_context(viewport=screens.WIDE)
        screens.sign_in(context, portal, "olga")
        page: Any = context.new_page()
        open_live(page, f"{portal.url}/console/workspaces/")
        page.focus("#filter_phase")
        run(portal, STOP)
        page.wait_for_selector("#list >> text=seen at once", timeout=WITHIN_MS)
        assert page.evaluate("document.activeElement.id") == "filter_phase"
        context.close()


TELL = """
import django
django.setup()
from runtime import bus
bus.publish(["operators"], {"kind": "cluster", "uid": "any"})
"""


def test_a_refresh_throws_nobody_out_who_walks_by_keyboard_or_marks_text(
    portal: screens.Portal,
) -> None:
    kept, marked = "#clusters[data-old]", "document.getElementById('clusters').dataset.old = 1"
    with screens.browser() as chromium:
        context = chromium.new_context(viewport=screens.WIDE)
        screens.sign_in(context, portal, "olga")
        page: Any = context.new_page()
        open_live(page, f"{portal.url}/console/clusters/")
        page.focus("#clusters a[href$='/west/']")
        page.evaluate(marked)
        run(portal, TELL)
        page.wait_for_selector(kept, state="detached", timeout=WITHIN_MS)
        assert page.evaluate("document.activeElement.getAttribute('href')").endswith("/west/")
        page.evaluate("getSelection().selectAllChildren(document.querySelector('#clusters .note'))")
        page.evaluate(marked)
        run(portal, TELL)
        page.wait_for_timeout(2_000)
        assert page.locator(kept).count() == 1
        page.evaluate("getSelection().removeAllRanges()")
        page.wait_for_selector(kept, state="detached", timeout=WITHIN_MS)
        context.close()
