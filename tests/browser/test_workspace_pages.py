"""The pages of one workspace change without being loaded again, and keep who walks by keyboard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from benchmarks.lib import poll
from tests.browser.test_live import open_live
from tests.support.django_shell import DjangoShell
from tests.support.migrated import beginning
from tests.support.ports import free_port
from tools import screens

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(screens.CHROMIUM).exists(), reason="Chromium is not installed"),
]

WITHIN_MS = 60_000
# What the engine does at the end of a step: the row, what was seen of it, and the news.
BECOME = """
from notebooks.models import Workspace
from runtime import bus
row = Workspace.objects.get(name="segmentation-service")
Workspace.objects.filter(pk=row.pk).update(phase={phase!r}, desired={desired!r})
bus.publish([f"workspace:{{row.uid}}"], {{"kind": "workspace", "uid": str(row.uid)}})
answer = True
"""


@pytest.fixture(scope="module")
def portal() -> Iterator[screens.Portal]:
    with screens.portal(free_port(), beginning) as running:
        yield running


@pytest.fixture(scope="module")
def shell(
    portal: screens.Portal, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DjangoShell]:
    made = DjangoShell(portal.env, tmp_path_factory.mktemp("shell") / "shell.log")
    yield made
    made.close()


@pytest.fixture
def become(shell: DjangoShell) -> Iterator[Callable[..., None]]:
    def run(phase: str, desired: str = "running") -> None:
        shell.run(BECOME.format(phase=phase, desired=desired))

    yield run
    run("running")


@pytest.fixture(scope="module")
def cookies(chromium: Any, portal: screens.Portal) -> Any:
    context = chromium.new_context()
    screens.sign_in(context, portal, "alice")
    kept = context.storage_state()
    context.close()
    return kept


@pytest.fixture
def page(chromium: Any, cookies: Any) -> Iterator[Page]:
    context = chromium.new_context(
        storage_state=cookies, viewport=screens.WIDE, timezone_id="America/New_York"
    )
    yield context.new_page()
    context.close()


def place(portal: screens.Portal, name: str) -> str:
    path = next(one["url"] for one in portal.pages if one["name"] == name)
    return f"{portal.url}{path}"


def test_ports_ways_in_and_the_node_come_with_readiness_and_go_with_the_stop(
    portal: screens.Portal, page: Page, become: Callable[..., None]
) -> None:
    become("starting")
    open_live(page, place(portal, "cluster-work-running"))
    page.evaluate("window.kept = 1")  # a page that was loaded again has it no more
    opens = page.locator(".ports a")
    expect(opens).to_have_count(0)
    become("running")
    expect(opens).to_have_count(2, timeout=WITHIN_MS)
    expect(page.locator("#facts")).to_contain_text("a100-02")
    expect(page.get_by_role("heading", name="From your own terminal")).to_be_visible()
    become("stopped", "stopped")
    expect(opens).to_have_count(0, timeout=WITHIN_MS)
    expect(page.get_by_role("heading", name="From your own terminal")).to_have_count(0)
    expect(page.locator("#facts")).not_to_contain_text("a100-02", timeout=WITHIN_MS)
    assert page.evaluate("window.kept") == 1


def test_the_terminals_page_goes_on_when_the_workspace_runs(
    portal: screens.Portal, page: Page, become: Callable[..., None]
) -> None:
    become("stopped", "stopped")
    asked: list[str] = []
    page.on("websocket", lambda socket: asked.append(socket.url))
    open_live(page, place(portal, "cluster-work-terminal"))
    says = page.get_by_text("The workspace does not run. Start it to open a terminal.")
    expect(says).to_be_visible()
    expect(page.locator(".xterm")).to_have_count(1, timeout=WITHIN_MS)
    start = page.locator("#running").get_by_role("button", name="Start")
    connect = page.locator("#terminal-connect")
    expect(start).to_be_visible()
    expect(connect).to_be_hidden()
    keys = page.locator("#terminal-help")
    expect(keys).to_be_hidden()  # nor are buttons and a screen shown that have no use
    expect(page.get_by_role("button", name="Copy selection")).to_be_hidden()
    assert asked == []
    become("running")
    expect(keys).to_be_visible(timeout=WITHIN_MS)
    expect(says).to_have_count(0, timeout=WITHIN_MS)
    poll(lambda: page.evaluate("true") and bool(asked), within_s=WITHIN_MS / 1000, every_s=0.1)
    assert "/gate/terminal/" in asked[0]
    expect(start).to_have_count(0)
    become("stopped", "stopped")
    expect(says).to_be_visible(timeout=WITHIN_MS)
    expect(start).to_be_visible()
    expect(connect).to_be_hidden()


# --- files: the gate is answered for ----------------------------------------------------------


class Gate:
    """What the gate would say of a home of some folders and files."""

    def __init__(self, page: Page, origin: str) -> None:
        self.tree: dict[str, list[str]] = {
            "": ["data/", "runs/", "a.txt", "b.txt", "c.txt"],
            "data": ["inner.csv"],
            "runs": ["log.txt"],
        }
        self.held: dict[str, Route] = {}
        self.holds: set[str] = set()  # folders whose answer waits for ``let_go``
        self.refused: dict[str, str] = {}  # names of uploads that fail, and why
        self.forbidden: set[str] = set()  # names of files that the container may not read
        self.headers = {"Access-Control-Allow-Origin": origin}  # to no script that sends cookies
        page.route("**/gate/files/**", self._asked)

    def let_go(self, folder: str) -> None:
        self._list(self.held.pop(folder), folder)

    def _asked(self, route: Route) -> None:
        parts = urlsplit(route.request.url)
        path = parse_qs(parts.query).get("path", [""])[0]
        act = parts.path.rsplit("/", 1)[1]
        if act == "list" and path in self.holds:
            self.held[path] = route
        elif act == "list":
            self._list(route, path)
        elif act == "act":
            self._act(route, json.loads(route.request.post_data or "{}"))
        elif act == "upload":
            self._upload(route, unquote(path))
        elif "check" in parse_qs(parts.query):
            self._check(route, path)
        else:
            name = path.rsplit("/", 1)[-1]
            kept = {**self.headers, "Content-Disposition": f"attachment; filename={name}"}
            route.fulfill(status=200, headers=kept, body="contents")

    def _list(self, route: Route, path: str) -> None:
        at = f"{path}/" if path else ""
        entries = [
            {
                "name": name.rstrip("/"),
                "path": f"{at}{name.rstrip('/')}",
                "kind": "folder" if name.endswith("/") else "file",
                "size": 3,
                "modified": 1_800_000_000,
            }
            for name in self.tree[path]
        ]
        way = [{"name": path, "path": path}] if path else []
        said = {"path": path, "parts": way, "entries": entries, "truncated": False}
        route.fulfill(status=200, headers=self.headers, json=said)

    def _act(self, route: Route, said: dict[str, str]) -> None:
        names = self.tree[""]
        if said["act"] == "delete":
            names.remove(said["path"])
        elif said["act"] == "rename":
            names[names.index(said["path"])] = said["to"]
        route.fulfill(status=200, headers=self.headers, json={})

    def _check(self, route: Route, path: str) -> None:
        why = "" if path in self.tree[""] else "There is no such file."
        if path in self.forbidden:
            why = "The file system does not allow this."
        if why:
            said = {"code": "forbidden", "detail": why}
            route.fulfill(status=403, headers=self.headers, json=said)
            return
        route.fulfill(status=204, headers=self.headers)

    def _upload(self, route: Route, name: str) -> None:
        if why := self.refused.get(name):
            said = {"code": "conflict", "detail": why}
            route.fulfill(status=409, headers=self.headers, json=said)
            return
        self.tree[""].append(name)
        route.fulfill(status=201, headers=self.headers, json={"size": 1})


@pytest.fixture
def gate(portal: screens.Portal, page: Page) -> Gate:
    made = Gate(page, portal.url)
    open_live(page, place(portal, "cluster-work-files"))
    expect(row(page, "a.txt")).to_be_visible(timeout=WITHIN_MS)
    return made


def row(page: Page, name: str) -> Any:
    return page.locator("#files-rows tr", has_text=name)


def has_focus(page: Page, label: str) -> None:
    held = page.locator(":focus")
    expect(held).to_have_accessible_name(label)


def test_of_two_folders_opened_quickly_the_later_one_is_shown(page: Page, gate: Gate) -> None:
    gate.holds = {"data", "runs"}
    page.get_by_role("button", name="data", exact=True).click()
    page.get_by_role("button", name="runs", exact=True).click()
    poll(lambda: page.evaluate("true") and len(gate.held) == 2, within_s=60, every_s=0.1)
    gate.let_go("runs")
    expect(row(page, "log.txt")).to_be_visible()
    gate.let_go("data")
    page.wait_for_timeout(500)
    expect(row(page, "log.txt")).to_be_visible()
    expect(page.locator("#files-path [aria-current]")).to_have_text("runs")


def test_who_walks_by_keyboard_stays_where_he_was(page: Page, gate: Gate) -> None:
    page.get_by_role("button", name="data", exact=True).press("Enter")
    expect(row(page, "inner.csv")).to_be_visible()
    expect(page.locator(":focus")).to_have_text("data")
    page.get_by_role("button", name="Home", exact=True).press("Enter")
    expect(row(page, "a.txt")).to_be_visible()
    expect(page.locator(":focus")).to_have_text("Home")

    page.get_by_role("button", name="Rename: b.txt").press("Enter")
    page.locator("#files-dialog-name").fill("z.txt")
    page.locator("#files-dialog-ok").press("Enter")
    expect(row(page, "z.txt")).to_be_visible()
    has_focus(page, "Rename: z.txt")

    page.get_by_role("button", name="Delete: a.txt").press("Enter")
    page.locator("#files-dialog-ok").press("Enter")
    expect(row(page, "a.txt")).to_have_count(0)
    has_focus(page, "Delete: z.txt")  # what stands in its place


def test_an_empty_folder_is_said_and_no_empty_table_shown(page: Page, gate: Gate) -> None:
    gate.tree["runs"] = []
    table = page.locator(".files table")
    expect(table).to_be_visible()
    page.get_by_role("button", name="runs", exact=True).click()
    expect(page.locator("#files-state")).to_have_text("This folder is empty.")
    expect(table).to_be_hidden()


def test_on_a_phone_the_folder_stands_on_a_line_above_the_buttons(page: Page, gate: Gate) -> None:
    page.set_viewport_size(screens.NARROW)
    folder, button = page.locator("#files-path").bounding_box(), page.locator("#files-mkdir")
    upload = page.locator("label[for=files-upload]").bounding_box()
    beside = button.bounding_box()
    assert folder
    assert upload
    assert beside
    assert folder["y"] + folder["height"] <= upload["y"] == beside["y"]


def test_times_are_in_the_zone_of_the_profile(page: Page, gate: Gate) -> None:
    shown = page.locator("#files-rows time").first
    expect(shown).to_have_text("1/15/2027, 8:00:00 AM")  # UTC; the browser is in New York


def test_a_download_that_is_refused_is_said_on_the_page(page: Page, gate: Gate) -> None:
    with page.expect_download() as carried:
        page.get_by_role("link", name="Download: b.txt").click()
    assert carried.value.suggested_filename == "b.txt"
    gate.tree[""].remove("b.txt")
    before = page.url
    page.get_by_role("link", name="Download: b.txt").click()
    expect(page.locator("#files-state")).to_have_text("There is no such file.")
    gate.forbidden = {"c.txt"}
    page.get_by_role("link", name="Download: c.txt").click()
    expect(page.locator("#files-state")).to_have_text("The file system does not allow this.")
    assert page.url == before


def test_an_upload_of_several_that_fails_says_at_which(page: Page, gate: Gate) -> None:
    gate.refused = {"two.txt": "The volume is full, or the file is too large for it."}
    files: list[Any] = [
        {"name": name, "mimeType": "text/plain", "buffer": b"1"}
        for name in ("one.txt", "two.txt", "three.txt")
    ]
    page.locator("#files-upload").set_input_files(files)
    expect(page.locator("#files-state")).to_have_text(
        "two.txt: The volume is full, or the file is too large for it."
    )
    expect(row(page, "one.txt")).to_be_visible()


def test_the_files_come_when_the_workspace_runs_and_go_when_it_stops(
    portal: screens.Portal, page: Page, become: Callable[..., None]
) -> None:
    become("stopped", "stopped")
    Gate(page, portal.url)
    open_live(page, place(portal, "cluster-work-files"))
    says = page.get_by_text("The workspace does not run. Start it to see its files.")
    expect(says).to_be_visible()
    expect(page.locator("#files")).to_be_hidden()
    become("running")
    expect(row(page, "a.txt")).to_be_visible(timeout=WITHIN_MS)
    expect(says).to_have_count(0)
    become("stopped", "stopped")
    expect(says).to_be_visible(timeout=WITHIN_MS)
    expect(page.locator("#files")).to_be_hidden()
