"""The files page in a real Chromium: preview, rename, download, archives, copies, delete, undo."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, Response, Route, expect

from benchmarks.lib import poll
from tests.browser.file_samples import notebook, png
from tests.browser.files_page import OPENS_WITHIN_MS, TOLD_WITHIN_S, Visit, give
from tests.browser.files_page import environment as environment  # noqa: PLC0414 - a fixture
from tests.browser.files_page import visit as visit  # noqa: PLC0414 - a fixture
from tests.browser.files_page import volume as volume  # noqa: PLC0414 - a fixture
from tests.support.portal import ROOT, Portal
from tests.support.zips import Unmarked

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.timeout(900)]

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"


def test_upload_preview_rename_download_delete_and_undo(visit: Visit) -> None:
    page = visit.page
    data = os.urandom(20 << 20)  # more than one piece
    expect(page.get_by_text("This folder is empty")).to_be_visible()
    give(page, ("big.bin", data), ("hello.txt", "hello <b>ünïcode</b>".encode()))
    expect(visit.row("big.bin")).to_be_visible(timeout=90_000)
    expect(page.get_by_text("2 files were uploaded.")).to_be_visible(timeout=90_000)
    visit.shows("big.bin", "hello.txt")

    visit.row("hello.txt").locator(".browser-name").click()
    expect(page.locator("#browser-preview")).to_contain_text("hello <b>ünïcode</b>")

    page.keyboard.press("F2")
    name = page.locator("#browser-rows input[type=text]")
    name.fill("greeting/x.txt")
    page.keyboard.press("Enter")
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(name).to_have_value("greeting/x.txt")  # what was typed stays, to be mended
    name.fill("greeting.txt")
    page.keyboard.press("Enter")
    expect(visit.row("greeting.txt")).to_be_visible()
    visit.shows("big.bin", "greeting.txt")

    visit.row("big.bin").locator("td.end").click()
    with page.expect_download() as got:
        page.get_by_role("toolbar").get_by_role("button", name="Download").click()
    assert got.value.suggested_filename == "big.bin"
    found = Path(got.value.path()).read_bytes()
    assert hashlib.sha256(found).digest() == hashlib.sha256(data).digest()

    page.locator("#browser-all").check()
    with page.expect_download() as got:
        page.get_by_role("toolbar").get_by_role("button", name="Download").click()
    with zipfile.ZipFile(io.BytesIO(Path(got.value.path()).read_bytes())) as zipped:
        assert sorted(zipped.namelist()) == ["big.bin", "greeting.txt"]

    page.get_by_role("toolbar").get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 files, 0 folders, 20 MiB")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("This folder is empty")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(visit.row("greeting.txt")).to_be_visible()
    visit.holds("big.bin", "greeting.txt")


def test_times_are_in_the_zone_of_the_profile(visit: Visit) -> None:
    page = visit.page
    give(page, ("a.txt", b"x"))
    visit.shows("a.txt")
    at, said = page.locator("#browser-rows time").evaluate("(time) => [time.dateTime, time.title]")
    moment = datetime.fromisoformat(at)  # UTC, as the profile; the browser is in New York
    day = f"{moment.month}/{moment.day}/{moment.year}"
    assert " ".join(said.split()) == f"{day}, {moment:%I:%M:%S %p}".replace(", 0", ", ")


def test_an_archive_is_extracted_and_that_is_undone(visit: Visit) -> None:
    page = visit.page
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inner/hello.txt", "hello")
        archive.writestr("../out", "x")
        archive.writestr(Unmarked("画像.txt".encode("cp932")), b"")
    give(page, ("set.zip", packed.getvalue()), ("plain.txt", b"x"))
    expect(page.get_by_text("2 files were uploaded.")).to_be_visible(timeout=90_000)
    visit.shows("plain.txt", "set.zip")
    extract = page.get_by_role("toolbar").get_by_role("button", name="Extract here")
    visit.row("plain.txt").locator("td.end").click()
    expect(extract).to_be_hidden()
    visit.row("set.zip").locator("td.end").click()
    extract.click()
    told = page.get_by_text(
        "Unpacked into “set”: 2 files, 5 B. Its names were read as Shift-JIS. 1 thing was left out"
    )
    expect(told).to_be_visible(timeout=90_000)
    visit.holds("plain.txt", "set", "set.zip")
    page.get_by_role("button", name="Undo").click()
    expect(visit.row("set.zip")).to_be_visible()
    expect(page.locator("#browser-rows tr")).to_have_count(2)


# An answer that comes as the test says it: a real one of this size is over in no time.
ANSWER_AS_TOLD = """(act) => {
  const { fetch } = window;
  window.fetch = (url, options) => {
    if (!String(url).split("?")[0].endsWith(`/${act}`)) return fetch(url, options);
    const body = new ReadableStream({
      start(control) {
        window.told = (line) => control.enqueue(new TextEncoder().encode(JSON.stringify(line) + "\\n"));
        options.signal.addEventListener("abort", () => control.error(options.signal.reason));
      },
    });
    return Promise.resolve(new Response(body));
  };
}"""


def is_asked(page: Page) -> bool:
    return bool(page.evaluate("'told' in window"))


def test_how_far_the_unpacking_is_is_told_in_place(visit: Visit) -> None:
    page = visit.page
    page.evaluate(ANSWER_AS_TOLD, "extract")
    give(page, ("set.zip", b"x"))
    expect(page.get_by_text("“set.zip” was uploaded.")).to_be_visible()
    visit.shows("set.zip")
    visit.row("set.zip").locator("td.end").click()
    page.get_by_role("toolbar").get_by_role("button", name="Extract here").click()
    notes = page.locator("#browser-notes")
    expect(notes).to_contain_text("Unpacking “set.zip”…")
    bar = page.get_by_role("progressbar", name="Progress of the unpacking")
    cancel = notes.get_by_role("button", name="Cancel")
    cancel.focus()
    poll(lambda: is_asked(page), within_s=TOLD_WITHIN_S, every_s=0.1)
    page.evaluate("told({progress: {step: 'reading', files: 7, bytes: 2048}})")
    expect(notes).to_contain_text("Looking into “set.zip”: 7 files, 2.0 KiB")
    expect(bar).not_to_have_attribute("value", re.compile("."))  # how much there is, is not known
    far = "told({progress: {step: 'writing', files: 1, bytes: %d, of: 4096}})"
    page.evaluate(far % 0)
    expect(bar).to_have_attribute("value", "0")
    page.wait_for_timeout(50)  # a rate is told of two moments
    page.evaluate(far % 1024)
    expect(bar).to_have_attribute("value", "0.25")
    expect(notes).to_contain_text(re.compile(r"1 file, 1\.0\sKiB of 4\.0\sKiB….*/s · .* left"))
    expect(cancel).to_be_focused()
    cancel.press("Enter")
    expect(
        page.get_by_text("Unpacking “set.zip” was cancelled; nothing of it is left.")
    ).to_be_visible()
    expect(notes.locator(".note-info")).to_have_count(0)


def test_how_far_a_copy_is_is_told_in_place(visit: Visit) -> None:
    """How much there is, is really counted; what the copy says of itself is the test's."""
    page = visit.page
    give(page, ("set.bin", b"x" * 4096))
    expect(page.get_by_text("“set.bin” was uploaded.")).to_be_visible()
    notes = page.locator("#browser-notes")
    bar = page.get_by_role("progressbar", name="Progress of the copying")

    def begin() -> None:
        visit.row("set.bin").locator("td.end").click()
        page.get_by_role("toolbar").get_by_role("button", name="Copy", exact=True).click()
        notes.get_by_role("button", name="Copy here").click()

    begin()
    expect(page.get_by_text("Copied: 1 file, 4.0")).to_be_visible()
    expect(visit.row("set (2).bin")).to_be_visible()
    expect(bar).to_have_count(0)
    page.evaluate(ANSWER_AS_TOLD, "copy")
    with page.expect_response(lambda answer: "/count?" in answer.url):
        begin()
    expect(notes).to_contain_text("Copying…")
    cancel = notes.get_by_role("button", name="Cancel")
    cancel.focus()

    def it_is_known_how_much_there_is() -> bool:
        """The answer began to come: its end may not have been read."""
        page.evaluate("told({progress: {files: 0, bytes: 0}})")
        return bool(bar.get_attribute("value") == "0")

    poll(lambda: is_asked(page), within_s=TOLD_WITHIN_S, every_s=0.1)
    poll(it_is_known_how_much_there_is, within_s=TOLD_WITHIN_S, every_s=0.1)
    page.wait_for_timeout(50)  # a rate is told of two moments
    page.evaluate("told({progress: {files: 0, bytes: 1024}})")
    expect(bar).to_have_attribute("value", "0.25")
    expect(notes).to_contain_text(re.compile(r"0 files, 1\.0\sKiB of 4\.0\sKiB….*/s · .* left"))
    expect(cancel).to_be_focused()
    cancel.press("Enter")
    expect(page.get_by_text("The copying was cancelled.")).to_be_visible()
    expect(bar).to_have_count(0)


def test_b3_nothing_in_a_file_runs_in_the_page(visit: Visit) -> None:
    page = visit.page
    name = "<img src=x onerror=alert(1)>.txt"
    give(page, ("n.ipynb", notebook()), ("p.png", png(40, 30)), (name, b"x"))
    expect(page.get_by_text("3 files were uploaded.")).to_be_visible()
    expect(visit.row("p.png")).to_be_visible()
    title = page.title()
    visit.row("n.ipynb").locator(".browser-name").click()
    preview = page.locator("#browser-preview")
    expect(preview).to_contain_text("forty-two")
    expect(preview.get_by_role("heading", name="A title")).to_be_visible()
    expect(preview).to_contain_text("<script>document.title='owned'</script>")
    expect(preview).to_contain_text("text/html is not shown")
    assert preview.locator("script, img, iframe").count() == 0
    visit.row("p.png").locator(".browser-name").click()
    expect(preview.locator("canvas[data-drawn='40x30']")).to_be_visible()
    expect(visit.row("onerror")).to_be_visible()
    assert page.locator("#browser-rows img").count() == 0
    assert page.title() == title


def test_folders_keys_moving_search_and_usage(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("button", name="New folder").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("models")
    page.keyboard.press("Enter")
    expect(visit.row("models")).to_be_visible()
    give(page, ("one.txt", b"1"), ("two.txt", b"22"), ("three.txt", b"333"))
    expect(visit.row("two.txt")).to_be_visible()
    expect(page.get_by_text("3 files were uploaded.")).to_be_visible()
    visit.shows("models", "one.txt", "three.txt", "two.txt")
    page.get_by_role("button", name="Size", exact=True).click()
    expect(page.locator("th[data-sort=size]")).to_have_attribute("aria-sort", "ascending")
    visit.shows("models", "one.txt", "two.txt", "three.txt")

    page.locator(".browser-name").nth(1).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Shift+ArrowDown")
    expect(page.locator("#browser-chosen-words")).to_contain_text("2 selected")
    page.keyboard.press("Control+x")
    page.locator(".browser-name").first.click()
    expect(page.get_by_text("This folder is empty")).to_be_visible()
    page.keyboard.press("Control+v")
    expect(visit.row("two.txt")).to_be_visible()
    assert page.url.endswith("#models")
    page.go_back()
    expect(visit.row("three.txt")).to_be_visible()
    visit.shows("models", "three.txt")

    page.get_by_role("searchbox").fill("TWO")
    page.keyboard.press("Enter")
    expect(page.locator(".browser-found")).to_contain_text("two.txt")
    page.get_by_role("button", name="two.txt").click()
    expect(page.locator("#browser-preview")).to_contain_text("22")
    page.get_by_role("button", name="Disk usage").click()
    expect(page.locator(".browser-usage")).to_contain_text("two.txt")
    page.get_by_role("button", name="Back to the files").click()
    page.locator("#browser-path button").first.click()
    expect(visit.row("models")).to_be_visible()


def test_all_of_a_folder_is_chosen_and_deleted(visit: Visit) -> None:
    page = visit.page
    give(page, ("one.txt", b"1"), ("two.txt", b"22"))
    visit.holds("one.txt", "two.txt")
    page.locator("#browser-all").check()
    page.get_by_role("toolbar").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("This folder is empty")).to_be_visible()


def test_what_is_typed_or_opened_meanwhile_is_not_overrun_by_an_older_list(visit: Visit) -> None:
    page = visit.page
    give(page, ("a.txt", b"a"))
    expect(visit.row("a.txt")).to_be_visible()
    expect(page.get_by_text("“a.txt” was uploaded.")).to_be_visible()
    page.get_by_role("button", name="New folder").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("sub")
    page.keyboard.press("Enter")
    visit.shows("sub", "a.txt")

    # a list that comes while a name is typed waits for it
    visit.row("a.txt").locator(".browser-name").focus()
    page.keyboard.press("F2")
    name = page.locator("#browser-rows input[type=text]")
    name.fill("half-")
    give(page, ("b.txt", b"b"))
    expect(page.get_by_text("“b.txt” was uploaded.")).to_be_visible()
    expect(name).to_be_focused()
    page.keyboard.press("Escape")
    visit.shows("sub", "a.txt", "b.txt")

    # the answer about the folder that was left comes late, and changes nothing
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/list?path=&*", hold)
    page.get_by_role("button", name="Size", exact=True).click()
    poll(lambda: bool(held) or page.wait_for_timeout(50), within_s=TOLD_WITHIN_S, every_s=0.05)
    visit.row("sub").locator(".browser-name").click()
    expect(page.get_by_text("This folder is empty")).to_be_visible()
    with page.expect_response("**/list?path=&*"):
        held[0].continue_()
    page.wait_for_timeout(200)  # it would be drawn now
    expect(page.get_by_text("This folder is empty")).to_be_visible()
    page.unroute("**/list?path=&*")
    page.go_back()
    visit.holds("sub", "a.txt", "b.txt")


KEEP_WHAT_IS_SAID = """() => {
  window.said = [];
  const line = document.getElementById("browser-state");
  new MutationObserver(() => said.push(line.textContent)).observe(line, { childList: true });
}"""


def _is_a_list(answer: Response) -> bool:
    return answer.ok and answer.url.partition("?")[0].endswith("/list")


def test_files_that_were_closed_meanwhile_open_again_and_that_is_said(
    visit: Visit, portal: Portal
) -> None:
    page = visit.page
    give(page, ("a.txt", b"a"))
    expect(page.get_by_text("“a.txt” was uploaded.")).to_be_visible()
    expect(visit.row("a.txt")).to_be_visible()  # what the page asks by itself is answered
    page.evaluate(KEEP_WHAT_IS_SAID)
    ended = portal.shell(
        "from accounts.models import User; from files.services import sessions_end_for\n"
        "answer = sessions_end_for(person=User.objects.get(username='ann'))"
    )
    assert ended == 1
    with page.expect_response(_is_a_list, timeout=OPENS_WITHIN_MS):
        page.get_by_role("button", name="Size", exact=True).click()
    assert "Opening the files…" in page.evaluate("said")
    expect(page.locator("th[data-sort=size]")).to_have_attribute("aria-sort", "ascending")
    visit.shows("a.txt")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_can_be_used_on_a_telephone_and_with_a_reader(visit: Visit, theme: str) -> None:
    """axe-core, in an isolated world: the strict policy stays in force."""
    page = visit.page
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": 390, "height": 800})
    give(page, ("a-rather-long-name-of-a-file-that-has-to-wrap-somewhere.txt", b"x"))
    expect(visit.row("a-rather")).to_be_visible()
    visit.row("a-rather").locator(".browser-name").click()
    expect(page.locator("#browser-preview")).to_contain_text("x")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    world = page.context.new_cdp_session(page)
    frame = world.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
    made = world.send("Page.createIsolatedWorld", {"frameId": frame})["executionContextId"]
    world.send("Runtime.evaluate", {"expression": AXE.read_text(), "contextId": made})
    asked = {
        "expression": "axe.run(document).then((found) => JSON.stringify(found.violations))",
        "contextId": made,
        "awaitPromise": True,
        "returnByValue": True,
    }
    found = json.loads(world.send("Runtime.evaluate", asked)["result"]["value"])
    wrong = [v["id"] for v in found if v["impact"] in {"serious", "critical"}]
    assert wrong == [], found
