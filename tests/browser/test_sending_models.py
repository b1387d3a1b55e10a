"""A model is sent from a browser: chosen, refused, interrupted, gone on with, cancelled."""

from __future__ import annotations

import filecmp
import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from benchmarks.lib import poll
from tests.browser.test_two_clicks import Visitor
from tests.browser.test_uploads import PRESS_AFTER_THE_FIRST_PIECE
from tests.support.dataplane import dataplane_environment
from tests.support.portal import Portal

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.timeout(400)]

SEEN_WITHIN_MS = 120_000


def test_a_model_is_sent_interrupted_gone_on_with_and_cancelled(
    chromium: Browser, portal: Portal, people: dict[str, str], tmp_path: Path
) -> None:
    dataplane_environment()
    api = portal.api(portal.token(people["owner"]))
    ann = Visitor(chromium, portal)
    page = ann.page
    page.set_viewport_size({"width": 1440, "height": 900})
    page.on("dialog", lambda dialog: dialog.accept())  # leave though an upload is under way
    ann.sign_in(people["owner"])
    new = f"{portal.url}/projects/demo/models/new"

    refused_before_a_byte_is_sent(page, new, tmp_path)
    folder = model_in(tmp_path / "Iris 2026")
    page.set_input_files("#browser-folder", str(folder))
    expect(page.locator("#browser-state")).to_contain_text("1 file, 40 MiB (model.joblib)")
    expect(page.get_by_label("Model", exact=True)).to_have_value("iris-2026")
    page.evaluate(PRESS_AFTER_THE_FIRST_PIECE, 1)
    page.get_by_role("button", name="Register", exact=True).click()
    expect(page.locator("#browser-uploads")).to_contain_text("Paused", timeout=SEEN_WITHIN_MS)
    expect(page).to_have_url(re.compile(r"/models/iris-2026/v1$"))
    page.reload()
    expect(page.get_by_text("Its files have not all arrived.")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if "offset=" in r.url else None)
    page.set_input_files("#browser-folder", str(folder))
    expect(page.locator("#version")).to_contain_text("scikit-learn", timeout=SEEN_WITHIN_MS)
    expect(page.locator("#browser")).to_have_count(0)
    assert asked, "the rest of it"
    assert not [url for url in asked if re.search(r"offset=0(&|$)", url)], asked  # not anew
    row = api.get("projects/demo/models/iris-2026/versions/v1").json()
    assert (row["files"], row["framework"]) == ("there", "sklearn")
    there = portal.var / "volumes" / row["volume_id"]
    sent = there / row["folder"]
    assert filecmp.cmp(sent / "model.joblib", folder / "model.joblib", shallow=False)

    (folder / "notes.md").write_text("small, so it lands before the pause")
    page.goto(new)
    page.set_input_files("#browser-folder", str(folder))
    page.get_by_label("Model", exact=True).fill("gone")
    page.evaluate(PRESS_AFTER_THE_FIRST_PIECE, 1)
    page.get_by_role("button", name="Register", exact=True).click()
    expect(page.locator("#browser-uploads")).to_contain_text("Paused", timeout=SEEN_WITHIN_MS)
    assert list((there / "gone").rglob("notes.md"))
    page.locator("#browser-uploads").get_by_role("button", name="Cancel").click()
    expect(page.locator("body")).to_contain_text("gone/v1 is not registered", timeout=SEEN_WITHIN_MS)
    assert api.get("projects/demo/models/gone").status_code == 404
    poll(lambda: not (there / "gone").exists(), within_s=10, every_s=0.1)
    assert not list((there / ".berth" / "uploads").glob("*"))
    ann.context.close()


def refused_before_a_byte_is_sent(page: Page, new: str, folder: Path) -> None:
    """Archives, and more files than a model has."""
    sent: list[str] = []
    page.on("request", lambda r: sent.append(r.url) if "/gate/" in r.url else None)
    page.goto(new)
    nothing = {"mimeType": "application/octet-stream", "buffer": b"x"}
    page.set_input_files("#browser-upload", [{"name": "model.tar.gz", **nothing}])
    expect(page.locator("#browser-notes")).to_contain_text("“model.tar.gz” is an archive")
    for name in ("model.keras", "model.pt", "weights.npz"):  # zip files, and their frameworks' own
        page.set_input_files("#browser-upload", [{"name": name, **nothing}])
        expect(page.locator("#browser-state")).to_contain_text(f"1 file, 1 B ({name})")
        expect(page.locator("#browser-notes")).to_be_empty()
    many = folder / "many"
    many.mkdir()
    for number in range(1_001):
        (many / f"{number}.bin").touch()
    page.set_input_files("#browser-folder", str(many))
    expect(page.locator("#browser-notes")).to_contain_text("A model has at most 1,000 files.")
    assert sent == []
    page.goto(new)


def model_in(folder: Path) -> Path:
    folder.mkdir()
    (folder / "model.joblib").write_bytes(os.urandom(1 << 20) * 40)
    return folder
