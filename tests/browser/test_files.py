"""The files page in a real Chromium: upload, preview, rename, download, delete, undo."""

from __future__ import annotations

import filecmp
import hashlib
import io
import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PASSWORD
from tests.support.dataplane import dataplane_environment
from tests.support.portal import ROOT, Portal

pytestmark = [pytest.mark.browser, pytest.mark.real]

OPENS_WITHIN_MS = 60_000
# In the page itself: from here one would often be too late.
PAUSE_AFTER_THE_FIRST_PIECE = """() => {
  const { send } = XMLHttpRequest.prototype;
  let sent = 0;
  XMLHttpRequest.prototype.send = function (body) {
    this.addEventListener("loadend", () => {
      sent += 1;
      if (sent === 1) document.querySelector("#browser-uploads button").click();
    });
    return send.call(this, body);
  };
}"""
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module", autouse=True)
def environment() -> Path:
    return dataplane_environment()


@pytest.fixture(scope="module")
def volume(portal: Portal, people: dict[str, str]) -> str:
    """The path of the page of a volume of the project ``demo``."""
    made = portal.shell(
        "from accounts.models import User; from accounts.principal import Principal\n"
        "from projects.models import Project\n"
        "from volumes.services import project_volume_ensure\n"
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
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))

    def _said(self, message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.wrong.append(message.text)

    def row(self, name: str) -> Any:
        return self.page.locator("#browser-rows tr", has_text=name)

    def names(self) -> list[str]:
        return self.page.locator("#browser-rows .browser-name").all_inner_texts()


@pytest.fixture
def visit(
    chromium: Browser, portal: Portal, people: dict[str, str], volume: str
) -> Iterator[Visit]:
    context = chromium.new_context(locale="en-US", accept_downloads=True)
    one = Visit(context.new_page())
    page = one.page
    page.goto(portal.url)
    page.get_by_label(re.compile("username", re.IGNORECASE)).fill(people["owner"])
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"{re.escape(portal.url)}/$"))
    page.goto(portal.url + volume)
    expect(page.locator("#browser-main")).to_be_visible(timeout=OPENS_WITHIN_MS)
    yield one
    assert one.wrong == []
    context.close()


def png(width: int, height: int) -> bytes:
    def part(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(b"\0" + b"\x20\x80\xc0" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + part(b"IHDR", head)
        + part(b"IDAT", zlib.compress(rows))
        + part(b"IEND", b"")
    )


def notebook() -> bytes:
    html = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    outputs = [
        {"output_type": "stream", "text": "forty-two"},
        {"output_type": "display_data", "data": {"text/html": html}},
    ]
    cells = [
        {"cell_type": "markdown", "source": f"# A title\n{html}"},
        {"cell_type": "code", "execution_count": 1, "source": html, "outputs": outputs},
    ]
    return json.dumps({"cells": cells, "metadata": {}}).encode()


def give(page: Page, *files: tuple[str, bytes]) -> None:
    page.set_input_files(
        "#browser-upload",
        [
            {"name": name, "mimeType": "application/octet-stream", "buffer": data}
            for name, data in files
        ],
    )


def test_upload_preview_rename_download_delete_and_undo(visit: Visit) -> None:
    page = visit.page
    data = os.urandom(20 << 20)  # more than one piece
    expect(page.get_by_text("This folder is empty")).to_be_visible()
    give(page, ("big.bin", data), ("hello.txt", "hello <b>ünïcode</b>".encode()))
    expect(visit.row("big.bin")).to_be_visible(timeout=30_000)
    expect(page.get_by_text("2 files were uploaded.")).to_be_visible(timeout=30_000)

    visit.row("hello.txt").locator(".browser-name").click()
    expect(page.locator("#browser-preview")).to_contain_text("hello <b>ünïcode</b>")

    page.keyboard.press("F2")
    page.locator("#browser-rows input[type=text]").fill("greeting.txt")
    page.keyboard.press("Enter")
    expect(visit.row("greeting.txt")).to_be_visible()
    assert visit.names() == ["big.bin", "greeting.txt"]

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
    assert sorted(visit.names()) == ["big.bin", "greeting.txt"]
    remove_all(visit)


def remove_all(visit: Visit) -> None:
    page = visit.page
    page.locator("#browser-all").check()
    page.get_by_role("toolbar").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("This folder is empty")).to_be_visible()


def test_b3_nothing_in_a_file_runs_in_the_page(visit: Visit) -> None:
    page = visit.page
    name = "<img src=x onerror=alert(1)>.txt"
    give(page, ("n.ipynb", notebook()), ("p.png", png(40, 30)), (name, b"x"))
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
    remove_all(visit)


def test_folders_keys_moving_search_and_usage(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("button", name="New folder").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("models")
    page.keyboard.press("Enter")
    expect(visit.row("models")).to_be_visible()
    give(page, ("one.txt", b"1"), ("two.txt", b"22"), ("three.txt", b"333"))
    expect(visit.row("two.txt")).to_be_visible()
    expect(page.get_by_text("3 files were uploaded.")).to_be_visible()
    assert visit.names() == ["models", "one.txt", "three.txt", "two.txt"]
    page.get_by_role("button", name="Size", exact=True).click()
    expect(page.locator("th[data-sort=size]")).to_have_attribute("aria-sort", "ascending")
    assert visit.names() == ["models", "one.txt", "two.txt", "three.txt"]

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
    assert visit.names() == ["models", "three.txt"]

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
    remove_all(visit)


def test_what_is_there_is_asked_about(visit: Visit) -> None:
    page = visit.page
    give(page, ("a.txt", b"old"))
    expect(page.get_by_text("“a.txt” was uploaded.")).to_be_visible()
    give(page, ("a.txt", b"new!"))
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("is there already")
    dialog.get_by_role("button", name="Keep both").click()
    expect(visit.row("a (2).txt")).to_be_visible()
    remove_all(visit)


def test_an_upload_can_be_paused_and_goes_on_after_a_reload(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    file = tmp_path / "large.bin"
    file.write_bytes(os.urandom(1 << 20) * 64)
    page.evaluate(PAUSE_AFTER_THE_FIRST_PIECE)
    page.set_input_files("#browser-upload", str(file))
    expect(page.locator("#browser-uploads")).to_contain_text("Paused", timeout=90_000)
    page.on("dialog", lambda dialog: dialog.accept())  # an upload is under way: leave anyway
    page.reload()
    expect(page.get_by_text("An upload was interrupted")).to_be_visible(timeout=20_000)
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if "offset=" in r.url else None)
    page.set_input_files("#browser-upload", str(file))
    expect(page.get_by_text("“large.bin” was uploaded.")).to_be_visible(timeout=120_000)
    offset = int(asked[0].rpartition("=")[2])
    assert offset >= 16 << 20  # what had arrived was not sent again
    with page.expect_download() as got:
        visit.row("large.bin").locator("td.end").click()
        page.get_by_role("toolbar").get_by_role("button", name="Download").click()
    assert filecmp.cmp(got.value.path(), file, shallow=False)
    remove_all(visit)


def test_an_interrupted_upload_draws_no_namesake_to_itself(visit: Visit, tmp_path: Path) -> None:
    """The same file for another folder lands there; only when asked for it goes on."""
    page = visit.page
    file = tmp_path / "shard.bin"
    file.write_bytes(os.urandom(1 << 20) * 40)
    page.evaluate(PAUSE_AFTER_THE_FIRST_PIECE)
    page.set_input_files("#browser-upload", str(file))
    expect(page.locator("#browser-uploads")).to_contain_text("Paused", timeout=90_000)
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    expect(page.get_by_text("An upload was interrupted")).to_be_visible(timeout=20_000)
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
    expect(visit.row("shard.bin")).to_be_visible(timeout=120_000)
    expect(page.get_by_text("An upload was interrupted")).to_be_hidden()
    assert sorted(visit.names()) == ["other", "shard.bin"]
    remove_all(visit)


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
    remove_all(visit)
