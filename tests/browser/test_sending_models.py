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
# In the page itself, since only a browser finds the gate by its name.
FULL_AT_FIRST = """() => {
  const { fetch } = window;
  window.fetch = async (...asked) => {
    const answer = await fetch(...asked);
    if (!answer.ok || !String(asked[0]).includes("/info?")) return answer;
    window.fetch = fetch;
    return Response.json({ ...(await answer.json()), room_bytes: 1 });
  };
}"""
# In the page itself: the press comes while the last piece is made a file.
CANCEL_WHILE_IT_LANDS = """() => {
  const { fetch } = window;
  window.fetch = async (...asked) => {
    if (String(asked[0]).includes("/finish?")) {
      document.querySelectorAll("#browser-uploads button")[1].click();
      await new Promise((done) => setTimeout(done, 1500));
    }
    return fetch(...asked);
  };
}"""


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
    page.get_by_role("button", name="Register", exact=True).dblclick()
    expect(page.locator("#browser-uploads")).to_contain_text("Paused", timeout=SEEN_WITHIN_MS)
    expect(page).to_have_url(re.compile(r"/models/iris-2026/v1$"))
    page.reload()
    expect(page.get_by_text("Its files have not all arrived.")).to_be_visible()
    other = ann.context.new_page()  # the same, in another tab
    other.goto(page.url)
    expect(other.locator("#browser-give-up")).to_be_visible()
    page.bring_to_front()
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

    assert (
        api.get("projects/demo/models/iris-2026/versions/v2").status_code == 404
    )  # of two presses
    too_late_to_cancel(other, sent)
    cancelled_while_it_lands(page, new, folder)
    assert api.get("projects/demo/models/gone").status_code == 404
    uploads = there / ".berth" / "uploads"
    poll(
        lambda: not (there / "gone").exists() and not list(uploads.glob("*")),
        within_s=60,
        every_s=0.1,
    )
    others_in_place_of_what_did_not_fit(page, new, tmp_path)
    assert [one.name for one in (there / "other").rglob("*") if one.is_file()] == ["model.joblib"]
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


def too_late_to_cancel(other: Page, sent: Path) -> None:
    """The tab that only looked on has no box any more; a press that was on its way is refused."""
    other.bring_to_front()
    expect(other.locator("#browser")).to_be_hidden(timeout=SEEN_WITHIN_MS)
    other.evaluate("document.getElementById('browser-give-up').click()")
    expect(other.locator("#browser-notes")).to_contain_text("so nothing was removed")
    assert (sent / "model.joblib").is_file()
    other.close()


def cancelled_while_it_lands(page: Page, new: str, folder: Path) -> None:
    """Refused for its size first: choosing again sends it, and there is a button that ends it."""
    (folder / "notes.md").write_text("small, so it lands before")
    page.goto(new)
    page.evaluate(FULL_AT_FIRST)
    page.set_input_files("#browser-folder", str(folder))
    page.get_by_label("Model", exact=True).fill("gone")
    page.get_by_role("button", name="Register", exact=True).click()
    expect(page.locator("#browser-notes")).to_contain_text("has room for", timeout=SEEN_WITHIN_MS)
    expect(page.locator("#browser-give-up")).to_be_visible()
    page.evaluate(CANCEL_WHILE_IT_LANDS)
    asked: list[str] = []
    page.on("request", lambda r: asked.append(f"{r.method} {r.url}"))
    page.set_input_files("#browser-folder", str(folder))
    expect(page.locator("body")).to_contain_text(
        "gone/v1 is not registered", timeout=SEEN_WITHIN_MS
    )
    landed = next(n for n, url in enumerate(asked) if "/finish?" in url)
    removed = next(
        n for n, url in enumerate(asked) if url.startswith("DELETE ") or "/delete?" in url
    )
    assert landed < removed, asked


def others_in_place_of_what_did_not_fit(page: Page, new: str, folder: Path) -> None:
    right, wrong = folder / "right" / "model.joblib", folder / "wrong" / "readme.txt"
    for file in (right, wrong):
        file.parent.mkdir()
        file.write_bytes(b"\x80\x05")
    page.goto(new)
    page.set_input_files("#browser-upload", str(wrong))
    page.get_by_label("Model", exact=True).fill("other")
    page.get_by_role("button", name="Register", exact=True).click()
    expect(page.get_by_text("What was sent has arrived")).to_be_visible(timeout=SEEN_WITHIN_MS)
    page.set_input_files("#browser-upload", str(right))
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("in its folder already: readme.txt.", timeout=SEEN_WITHIN_MS)
    dialog.get_by_role("button", name="Remove them, and send").click()
    expect(page.locator("#version")).to_contain_text("scikit-learn", timeout=SEEN_WITHIN_MS)


def model_in(folder: Path) -> Path:
    folder.mkdir()
    (folder / "model.joblib").write_bytes(os.urandom(1 << 20) * 40)
    return folder
