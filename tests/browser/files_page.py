"""Somebody at the files page of a volume, for the tests of that page.

A test file imports the fixtures ``environment``, ``volume`` and ``visit``; each visit begins with
an empty folder, whatever a test before it left.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from benchmarks.lib import poll
from dataplane.files.notes import UPLOADS
from tests.browser.conftest import PASSWORD
from tests.support.dataplane import dataplane_environment
from tests.support.portal import Portal

OPENS_WITHIN_MS = 60_000
TOLD_WITHIN_S = 60.0


@pytest.fixture(scope="module", autouse=True)
def environment() -> Path:
    return dataplane_environment()


@pytest.fixture(scope="module")
def volume(portal: Portal, people: dict[str, str]) -> str:
    """The path of the page of a volume of the project ``demo``."""
    made = portal.shell(
        "from accounts.models import User; from accounts.principal import Principal\n"
        "from projects.models import Project\n"
        "from volumes.services.create import project_volume_ensure\n"
        "who = Principal(user=User.objects.get(username='ann'))\n"
        "project = Project.objects.get(slug='demo')\n"
        "row = project_volume_ensure(principal=who, project=project, cluster_key='local')\n"
        "answer = str(row.uid)"
    )
    return f"/projects/demo/volumes/{made}/files/"


class Visit:
    """A page with what went wrong on it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.wrong: list[str] = []
        self.asked: dict[Request, str] = {}  # and what became of it
        page.on("request", lambda request: self.asked.update({request: "no answer"}))
        page.on("requestfailed", lambda one: self.asked.update({one: one.failure or "failed"}))
        page.on("response", lambda one: self.asked.update({one.request: str(one.status)}))
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))

    def _said(self, message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.wrong.append(message.text)

    def row(self, name: str) -> Any:
        return self.page.locator("#browser-rows tr", has_text=name)

    def names(self) -> list[str]:
        return self.page.locator("#browser-rows .browser-name").all_inner_texts()

    def shows(self, *names: str) -> None:
        """Wait for just these, in this order: the list is read again when something changed."""
        rows = self.page.locator("#browser-rows .browser-name")
        expect(rows).to_have_text(list(names), use_inner_text=True)

    def holds(self, *names: str) -> None:
        """Wait for just these, in whatever order."""
        poll(lambda: sorted(self.names()) == sorted(names), within_s=TOLD_WITHIN_S, every_s=0.1)


@pytest.fixture
def visit(
    chromium: Browser, portal: Portal, people: dict[str, str], volume: str
) -> Iterator[Visit]:
    empty(portal.var / "volumes" / volume.split("/")[4])
    context = chromium.new_context(
        locale="en-US", timezone_id="America/New_York", accept_downloads=True
    )
    one = Visit(context.new_page())
    page = one.page
    page.goto(portal.url)
    page.get_by_label(re.compile("username", re.IGNORECASE)).fill(people["owner"])
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"{re.escape(portal.url)}/$"))
    page.goto(portal.url + volume)
    try:
        expect(page.locator("#browser-main")).to_be_visible(timeout=OPENS_WITHIN_MS)
    except AssertionError as error:
        error.add_note("\n".join(f"{said} {q.method} {q.url}" for q, said in one.asked.items()))
        raise
    yield one
    assert one.wrong == []
    # cookies ignore ports: whoever listened at another one of the portal's host would be sent them
    here, led = urlsplit(portal.url), [urlsplit(request.url) for request in one.asked]
    assert [to for to in led if to.hostname == here.hostname and to.netloc != here.netloc] == []
    context.close()


def give(page: Page, *files: tuple[str, bytes]) -> None:
    page.set_input_files(
        "#browser-upload",
        [
            {"name": name, "mimeType": "application/octet-stream", "buffer": data}
            for name, data in files
        ],
    )


def empty(folder: Path) -> None:
    """Remove all that people put there, and what they began to; the browser's own folder is hidden."""
    assert folder.is_dir()
    for entry in (*folder.iterdir(), *(folder / UPLOADS).glob("*")):
        if entry.is_dir() and not entry.is_symlink():
            if not entry.name.startswith("."):
                shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
