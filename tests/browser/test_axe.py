"""axe-core finds no serious or critical problem on any page, in light and in dark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools import screens

AXE = screens.ROOT / "node_modules" / "axe-core" / "axe.min.js"
SERIOUS = {"serious", "critical"}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(screens.CHROMIUM).exists(), reason="Chromium is not installed"),
    pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (npm ci)"),
]


@pytest.fixture(scope="module")
def portal() -> Iterator[screens.Portal]:
    with screens.portal() as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with screens.browser() as running:
        yield running


def problems(page: Any) -> list[str]:
    """Run axe in an isolated world of the page: the strict policy stays in force."""
    found = page.evaluate(
        "async (options) => (await axe.run(document, options)).violations",
        {"resultTypes": ["violations"]},
    )
    return [
        f"{v['impact']} {v['id']}: {node['target']} {node['html'][:120]}"
        for v in found
        if v["impact"] in SERIOUS
        for node in v["nodes"][:3]
    ]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("look", ["light-wide", "dark-wide", "light-narrow"])
def test_no_page_has_a_serious_accessibility_problem(
    look: str, portal: screens.Portal, chromium: Any
) -> None:
    theme, _dash, width = look.partition("-")
    size = screens.WIDE if width == "wide" else screens.NARROW
    found: dict[str, list[str]] = {}
    for user in sorted({item["user"] for item in portal.pages}):
        context = chromium.new_context(viewport=size, color_scheme=theme, bypass_csp=True)
        context.add_init_script(path=AXE)
        if user:
            screens.sign_in(context, portal, user)
        page = context.new_page()
        for item in (p for p in portal.pages if p["user"] == user):
            screens.open_page(page, portal.url + item["url"])
            if wrong := problems(page):
                found[f"{item['name']} ({look})"] = wrong
        context.close()
    lines = [f"{name}\n    " + "\n    ".join(wrong) for name, wrong in found.items()]
    assert not found, "\n".join(lines)


def test_the_browser_reports_no_policy_violation_and_no_script_error(
    portal: screens.Portal, chromium: Any
) -> None:
    context = chromium.new_context(viewport=screens.WIDE)
    screens.sign_in(context, portal, "olga")
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for item in portal.pages:
        if item["user"] == "olga":
            screens.open_page(page, portal.url + item["url"])
    context.close()
    assert wrong == []


def test_the_palette_works_by_keyboard_alone(portal: screens.Portal, chromium: Any) -> None:
    context = chromium.new_context(viewport=screens.WIDE)
    screens.sign_in(context, portal, "olga")
    page = context.new_page()
    screens.open_page(page, f"{portal.url}/console/system/")
    page.keyboard.press("Control+k")
    page.keyboard.type("audit")
    page.wait_for_selector("#palette [role=option] >> text=Audit log")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/audit/")
    page.keyboard.press("Control+k")
    page.wait_for_selector("#palette[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#palette:not([open])", state="attached")
    context.close()


def test_a_typed_name_is_demanded_before_the_button_works(
    portal: screens.Portal, chromium: Any
) -> None:
    context = chromium.new_context(viewport=screens.WIDE)
    screens.sign_in(context, portal, "olga")
    page = context.new_page()
    url = next(p["url"] for p in portal.pages if p["name"] == "console-user")
    screens.open_page(page, portal.url + url)
    page.click("[popovertarget=disable]")
    button = page.locator("#disable button[type=submit]")
    assert button.is_disabled()
    page.keyboard.type("alice")  # the field has the focus
    assert button.is_enabled()
    context.close()


def test_the_menu_of_a_narrow_screen_opens_and_leads_somewhere(
    portal: screens.Portal, chromium: Any
) -> None:
    context = chromium.new_context(viewport=screens.NARROW)
    screens.sign_in(context, portal, "alice")
    page = context.new_page()
    screens.open_page(page, f"{portal.url}/projects/")
    assert not page.locator(".rail-nav").first.is_visible()
    page.click("[data-bs-toggle=offcanvas]")
    page.wait_for_selector("#rail.show")
    page.click("#rail >> text=Workspaces")
    page.wait_for_url("**/workspaces/")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()
