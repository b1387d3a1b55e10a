"""Uploads on the files page in a real Chromium: asked about, paused, interrupted, gone on with."""

from __future__ import annotations

import filecmp
import os
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from benchmarks.lib import poll
from tests.browser.files_page import Visit, give
from tests.browser.files_page import environment as environment  # noqa: PLC0414 - a fixture
from tests.browser.files_page import visit as visit  # noqa: PLC0414 - a fixture
from tests.browser.files_page import volume as volume  # noqa: PLC0414 - a fixture

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.timeout(900)]

# In the page itself: from here one would often be too late.
PRESS_AFTER_THE_FIRST_PIECE = """(presses) => {
  const { send } = XMLHttpRequest.prototype;
  let sent = 0;
  XMLHttpRequest.prototype.send = function (body) {
    this.addEventListener("loadend", () => {
      sent += 1;
      if (sent > 1) return;
      for (let n = 0; n < presses; n += 1) document.querySelector("#browser-uploads button").click();
    });
    return send.call(this, body);
  };
}"""


def test_what_is_there_is_asked_about(visit: Visit, tmp_path: Path) -> None:
    """Also where its namesake is of its size and second: what is in it is not known."""
    page = visit.page
    give(page, ("a.txt", b"old"))
    expect(page.get_by_text("“a.txt” was uploaded.")).to_be_visible()
    give(page, ("a.txt", b"new!"))
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("is there already")
    dialog.get_by_role("button", name="Keep both").click()
    expect(visit.row("a (2).txt")).to_be_visible()
    same = tmp_path / "b.txt"
    same.write_bytes(b"once")
    page.set_input_files("#browser-upload", str(same))
    expect(page.get_by_text("“b.txt” was uploaded.")).to_be_visible()
    page.set_input_files("#browser-upload", str(same))
    expect(dialog).to_contain_text("“b.txt” is there already")
    dialog.get_by_role("button", name="Skip").click()


def interrupt(page: Page, file: Path) -> None:
    """Upload its first piece, pause, and load the page anew."""
    page.evaluate(PRESS_AFTER_THE_FIRST_PIECE, 1)
    page.set_input_files("#browser-upload", str(file))
    expect(page.locator("#browser-uploads")).to_contain_text("Paused", timeout=90_000)
    page.on("dialog", lambda dialog: dialog.accept())  # an upload is under way: leave anyway
    page.reload()
    expect(page.get_by_text("An upload was interrupted")).to_be_visible(timeout=90_000)


def test_an_upload_can_be_paused_and_goes_on_after_a_reload(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    file = tmp_path / "large.bin"
    file.write_bytes(os.urandom(1 << 20) * 64)
    interrupt(page, file)
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if "offset=" in r.url else None)
    page.set_input_files("#browser-upload", str(file))
    expect(page.get_by_text("“large.bin” was uploaded.")).to_be_visible(timeout=120_000)
    offset = int(parse_qs(urlsplit(asked[0]).query)["offset"][0])
    assert offset >= 16 << 20  # what had arrived was not sent again
    with page.expect_download() as got:
        visit.row("large.bin").locator("td.end").click()
        page.get_by_role("toolbar").get_by_role("button", name="Download").click()
    assert filecmp.cmp(got.value.path(), file, shallow=False)


# The first answer to the end of an upload is lost, after all was done.
LOSE_THE_END = """() => {
  const { fetch } = window;
  let lost = false;
  window.fetch = async (url, options) => {
    const answer = await fetch(url, options);
    if (lost || !String(url).includes("/finish?")) return answer;
    await answer.text();
    lost = true;
    throw new TypeError("lost");
  };
}"""


@pytest.mark.long("a fault between two pieces; pause, reload and going on: the test above")
def test_an_upload_whose_last_answer_is_lost_is_not_asked_about(
    visit: Visit, tmp_path: Path
) -> None:
    page = visit.page
    file = tmp_path / "large.bin"
    file.write_bytes(os.urandom(1 << 20) * 20)
    page.evaluate(LOSE_THE_END)
    page.set_input_files("#browser-upload", str(file))
    expect(page.get_by_text("“large.bin” was uploaded.")).to_be_visible(timeout=90_000)
    assert page.get_by_role("dialog").count() == 0
    expect(visit.row("large.bin")).to_be_visible()
    visit.shows("large.bin")


@pytest.mark.long("a fault between two pieces; pause, reload and going on: the test above")
def test_an_interrupted_upload_draws_no_namesake_to_itself(visit: Visit, tmp_path: Path) -> None:
    """The same file for another folder lands there; only when asked for it goes on."""
    page = visit.page
    file = tmp_path / "shard.bin"
    file.write_bytes(os.urandom(1 << 20) * 40)
    interrupt(page, file)
    page.get_by_role("button", name="New folder").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("other")
    page.keyboard.press("Enter")
    visit.row("other").locator(".browser-name").click()
    expect(page.get_by_text("This folder is empty")).to_be_visible()
    page.set_input_files("#browser-upload", str(file))
    expect(page.get_by_text("“shard.bin” was uploaded.")).to_be_visible(timeout=120_000)
    expect(visit.row("shard.bin")).to_be_visible()
    with page.expect_file_chooser() as asked:
        page.get_by_role("button", name="Choose files").click()
    asked.value.set_files(str(file))
    page.locator("#browser-path button").first.click()
    expect(visit.row("other")).to_be_visible()  # the folder before has a row of the same name
    expect(visit.row("shard.bin")).to_be_visible(timeout=120_000)
    expect(page.get_by_text("An upload was interrupted")).to_be_hidden()
    visit.holds("other", "shard.bin")


# Once: where the end is asked for again, a second press would go on.
PAUSE_AT_THE_END = """() => {
  const { fetch } = window;
  let pressed = false;
  window.fetch = async (url, options) => {
    const answer = await fetch(url, options);
    if (pressed || !answer.ok || !String(url).includes("/finish?")) return answer;
    pressed = true;
    document.querySelector("#browser-uploads button").click();
    return answer;
  };
}"""


@pytest.mark.long("a fault between two pieces; pause, reload and going on: the test above")
def test_an_upload_that_is_paused_between_two_pieces_goes_on(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    file = tmp_path / "paused.bin"
    file.write_bytes(os.urandom(1 << 20) * 40)
    page.evaluate(PRESS_AFTER_THE_FIRST_PIECE, 1)
    page.set_input_files("#browser-upload", str(file))
    expect(page.locator("#browser-uploads")).to_contain_text("Paused", timeout=90_000)
    page.wait_for_timeout(1_000)  # the next piece would be sent now
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("“paused.bin” was uploaded.")).to_be_visible(timeout=90_000)
    visit.shows("paused.bin")


@pytest.mark.long("a fault between two pieces; pause, reload and going on: the test above")
def test_an_upload_goes_on_that_is_resumed_before_it_stopped(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    file = tmp_path / "twice.bin"
    file.write_bytes(os.urandom(1 << 20) * 40)
    page.evaluate(PRESS_AFTER_THE_FIRST_PIECE, 2)
    page.set_input_files("#browser-upload", str(file))
    expect(page.get_by_text("“twice.bin” was uploaded.")).to_be_visible(timeout=90_000)
    visit.shows("twice.bin")


@pytest.mark.long("a fault between two pieces; pause, reload and going on: the test above")
def test_an_upload_that_landed_while_it_was_paused_is_over_when_resumed(
    visit: Visit, tmp_path: Path
) -> None:
    page = visit.page
    file = tmp_path / "last.bin"
    file.write_bytes(os.urandom(1 << 20) * 20)
    page.evaluate(PAUSE_AT_THE_END)
    page.set_input_files("#browser-upload", str(file))
    expect(page.locator("#browser-uploads")).to_contain_text("Paused", timeout=90_000)
    expect(visit.row("last.bin")).to_be_visible()
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("“last.bin” was uploaded.")).to_be_visible(timeout=90_000)
    expect(page.locator("#browser-uploads")).to_be_hidden()


@pytest.mark.long("a fault between two pieces; pause, reload and going on: the test above")
def test_an_interrupted_upload_is_told_of_though_the_first_answer_about_it_is_lost(
    visit: Visit, tmp_path: Path
) -> None:
    page = visit.page
    file = tmp_path / "told.bin"
    file.write_bytes(os.urandom(1 << 20) * 40)
    lost: list[str] = []

    def lose(route: Route) -> None:
        if lost or route.request.method != "GET":
            route.continue_()
            return
        lost.append(route.request.url)
        route.abort()

    expect(page.locator("[data-note=unfinished]")).to_have_count(0)
    page.route(re.compile(r"/gate/volumes/[^/]+/uploads\?ticket="), lose)
    interrupt(page, file)
    assert lost
    page.get_by_role("button", name="Give them up").click()
    expect(page.get_by_text("An upload was interrupted")).to_be_hidden()


@pytest.mark.long("a fault between two pieces; pause, reload and going on: the test above")
def test_a_folder_opens_though_an_upload_lands_meanwhile(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("button", name="New folder").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("models")
    page.keyboard.press("Enter")
    expect(visit.row("models")).to_be_visible()
    lists: list[str] = []
    held: list[Route] = []

    def hold(route: Route) -> None:
        lists.append(route.request.url)
        if held:
            route.continue_()
        else:
            held.append(route)

    def until(n: int) -> None:
        # asking the page lets it speak
        poll(lambda: page.evaluate("true") and len(lists) >= n, within_s=60, every_s=0.05)

    page.route("**/list?*", hold)
    visit.row("models").locator(".browser-name").click()
    until(1)
    give(page, ("a.txt", b"a"))
    expect(page.get_by_text("“a.txt” was uploaded.")).to_be_visible()
    until(2)  # the list is read again
    held[0].continue_()
    expect(page.get_by_text("This folder is empty")).to_be_visible()
    expect(page.locator("#browser-path [aria-current=location]")).to_have_text("models")
