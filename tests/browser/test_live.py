"""A change made by another process reaches an open page by itself."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Route

from benchmarks.lib import poll
from tests.browser.pictured import portal as portal  # noqa: PLC0414 - a fixture
from tests.support.django_shell import DjangoShell
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
from notebooks.models import Workspace
from runtime import bus
row = Workspace.objects.get(name__regex="^(annotations$|seen at once)")  # or of an earlier try
Workspace.objects.filter(pk=row.pk).update(phase="failed", name={name!r})
bus.publish(["operators"], {{"kind": "workspace", "uid": str(row.uid)}})
"""


SHELLS: dict[str, DjangoShell] = {}


@pytest.fixture(scope="module", autouse=True)
def shell(portal: screens.Portal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    SHELLS[portal.url] = DjangoShell(portal.env, tmp_path_factory.mktemp("live") / "shell.log")
    yield
    SHELLS.pop(portal.url).close()


def run(portal: screens.Portal, code: str) -> None:
    """Change something in another process."""
    SHELLS[portal.url].run(f"{code}\nanswer = True")


def open_live(page: Any, url: str) -> None:
    """Open a page and return when it hears of changes."""
    page.add_init_script(HEARS)
    screens.open_page(page, url)
    poll(lambda: bool(page.evaluate("window.hears")), within_s=WITHIN_MS / 1000, every_s=0.1)


@pytest.fixture
def page(portal: screens.Portal, chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport=screens.WIDE)
    screens.sign_in(context, portal, "olga")
    yield context.new_page()
    context.close()


def test_a_list_refreshes_itself_and_keeps_the_focus(portal: screens.Portal, page: Any) -> None:
    open_live(page, f"{portal.url}/console/workspaces/?q=bob")  # there are more than a page shows
    page.focus("#filter_phase")
    name = f"seen at once {secrets.token_hex(2)}"
    run(portal, STOP.format(name=name))
    page.wait_for_selector(f"#list >> text={name}", timeout=WITHIN_MS)
    assert page.evaluate("document.activeElement.id") == "filter_phase"


TELL = """
from runtime import bus
bus.publish(["operators"], {"kind": "cluster", "uid": "any"})
"""


def test_a_refresh_throws_nobody_out_who_walks_by_keyboard_or_marks_text(
    portal: screens.Portal, clusters: Any
) -> None:
    page = clusters
    page.focus(WEST)
    page.evaluate(MARK)
    run(portal, TELL)
    page.wait_for_selector(KEPT, state="detached", timeout=WITHIN_MS)
    assert page.evaluate("document.activeElement.getAttribute('href')").endswith("/west/")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#clusters .note'))")
    page.evaluate(MARK)
    run(portal, TELL)
    page.wait_for_timeout(2_000)
    assert page.locator(KEPT).count() == 1
    page.evaluate("getSelection().removeAllRanges()")
    page.wait_for_selector(KEPT, state="detached", timeout=WITHIN_MS)


KEPT = "#clusters[data-old]"
MARK = "document.getElementById('clusters').dataset.old = 1"
WEST = "#clusters a[href$='/west/']"


@pytest.fixture
def clusters(portal: screens.Portal, page: Any) -> Any:
    """The page of clusters, which hears of changes; its part is marked as an old one."""
    open_live(page, f"{portal.url}/console/clusters/")
    page.evaluate(MARK)
    return page


def press(page: Any, selector: str) -> None:
    box = page.locator(selector).first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()


def asked(page: Any, portal: screens.Portal) -> Route:
    """The question for the part, on its way: what is answered is up to the caller."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route(f"{portal.url}/console/clusters/", hold)
    run(portal, TELL)
    poll(lambda: page.evaluate("true") and bool(held), within_s=WITHIN_MS / 1000, every_s=0.1)
    return held[0]


def answer(page: Any, route: Route) -> None:
    with page.expect_response(route.request.url, timeout=WITHIN_MS):
        route.continue_()
    page.wait_for_timeout(1_000)


def test_a_press_that_lasts_while_something_changes_still_arrives(
    portal: screens.Portal, clusters: Any
) -> None:
    page = clusters
    press(page, WEST)
    run(portal, TELL)
    page.wait_for_timeout(2_000)
    page.mouse.up()
    page.wait_for_url("**/clusters/west/", timeout=WITHIN_MS)


@pytest.mark.long("another moment of the same rule; three of them beside it")
def test_a_press_that_began_while_a_refresh_was_under_way_still_arrives(
    portal: screens.Portal, clusters: Any
) -> None:
    page = clusters
    route = asked(page, portal)
    press(page, WEST)
    answer(page, route)
    assert page.locator(KEPT).count() == 1
    page.mouse.up()
    page.wait_for_url("**/clusters/west/", timeout=WITHIN_MS)


@pytest.mark.long("another moment of the same rule; three of them beside it")
def test_text_marked_while_a_refresh_was_under_way_stays_and_what_came_is_asked_for_again(
    portal: screens.Portal, clusters: Any
) -> None:
    page = clusters
    route = asked(page, portal)
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#clusters .note'))")
    answer(page, route)
    assert page.locator(KEPT).count() == 1
    assert page.evaluate("getSelection().toString()")
    page.evaluate("getSelection().removeAllRanges()")
    page.wait_for_selector(KEPT, state="detached", timeout=WITHIN_MS)


@pytest.mark.long("another moment of the same rule; three of them beside it")
def test_a_press_that_leads_nowhere_holds_a_refresh_back_only_while_it_lasts(
    portal: screens.Portal, clusters: Any
) -> None:
    page = clusters
    press(page, "#clusters .text-secondary")
    run(portal, TELL)
    page.wait_for_timeout(2_000)
    assert page.locator(KEPT).count() == 1
    page.mouse.up()
    page.wait_for_selector(KEPT, state="detached", timeout=WITHIN_MS)


COUNTED = """() => {
  const made = document.createElement("button");
  made.id = "counted";
  made.onclick = () => { window.clicks = (window.clicks ?? 0) + 1; };
  document.getElementById("clusters").append(made);
  made.focus();
}"""


def change_while_space_is_held(portal: screens.Portal, page: Any) -> None:
    page.evaluate(COUNTED)
    page.keyboard.down("Space")
    run(portal, TELL)
    page.wait_for_timeout(2_000)
    assert page.locator(KEPT).count() == 1


@pytest.mark.long("another moment of the same rule; three of them beside it")
def test_a_space_bar_that_is_held_while_something_changes_still_presses(
    portal: screens.Portal, clusters: Any
) -> None:
    page = clusters
    change_while_space_is_held(portal, page)
    page.keyboard.up("Space")
    assert page.evaluate("window.clicks") == 1
    page.wait_for_selector(KEPT, state="detached", timeout=WITHIN_MS)


@pytest.mark.long("another moment of the same rule; three of them beside it")
def test_a_key_that_goes_up_in_another_window_holds_nothing_back(
    portal: screens.Portal, clusters: Any
) -> None:
    page = clusters
    change_while_space_is_held(portal, page)
    page.evaluate("dispatchEvent(new Event('blur'))")
    page.wait_for_selector(KEPT, state="detached", timeout=WITHIN_MS)
