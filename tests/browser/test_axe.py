"""axe-core finds no serious or critical problem on any page: light, dark, wide and narrow."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.pictured import portal as portal  # noqa: PLC0414 - a fixture
from tools import screens

AXE = screens.ROOT / "node_modules" / "axe-core" / "axe.min.js"
SERIOUS = {"serious", "critical"}
PEOPLE = (
    "",
    "alice",
    "dora",
    "kenji",
    "mona",
    "olga",
)  # who looks at the pages; nobody: signed out
LOOKS = (("light", screens.WIDE), ("dark", screens.WIDE), ("light", screens.NARROW))
# All that can find something serious; where only the colours are others, all that looks at them.
RULES = """(mild) => ({ rules: Object.fromEntries(
  axe._audit.rules.filter((rule) => mild.includes(rule.impact))
    .map((rule) => [rule.id, { enabled: false }])) })"""
OF_COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
# No colour half-way to another.
AT_ONCE = """() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("*, *::before, *::after { transition: none !important }");
  document.adoptedStyleSheets.push(sheet);
}"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(screens.CHROMIUM).exists(), reason="Chromium is not installed"),
    pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (npm ci)"),
]


def problems(page: Any, theme: str) -> list[str]:
    """Run axe in an isolated world of the page: the strict policy stays in force."""
    rules = OF_COLOURS if theme == "dark" else page.evaluate(RULES, ["minor", "moderate"])
    found = page.evaluate(
        "async (options) => (await axe.run(document, options)).violations",
        {"resultTypes": ["violations"], "preload": False, **rules},
    )
    return [
        f"{v['impact']} {v['id']}: {node['target']} {node['html'][:120]}"
        for v in found
        if v["impact"] in SERIOUS
        for node in v["nodes"][:3]
    ]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "user",
    [
        "",
        *(
            pytest.param(
                name, marks=pytest.mark.long("each page of each role; those of a visitor beside it")
            )
            for name in PEOPLE[1:]
        ),
    ],
)
def test_no_page_has_a_serious_accessibility_problem(
    user: str, portal: screens.Portal, chromium: Any
) -> None:
    """Each page is opened once and changed under its reader: to open it costs more than to look."""
    found: dict[str, list[str]] = {}
    context = chromium.new_context(bypass_csp=True)
    context.add_init_script(path=AXE)
    if user:
        screens.sign_in(context, portal, user)
    page = context.new_page()
    for item in (p for p in portal.pages if p["user"] == user):
        put_on(page, *LOOKS[0])
        screens.open_page(page, portal.url + item["url"], item["acts"])
        page.evaluate(AT_ONCE)
        for theme, size in LOOKS:
            put_on(page, theme, size)
            if wrong := problems(page, theme):
                found[f"{item['name']} ({theme}, {size['width']} px)"] = wrong
    context.close()
    lines = [f"{name}\n    " + "\n    ".join(wrong) for name, wrong in found.items()]
    assert not found, "\n".join(lines)


PALE = """<html lang="en"><title>Pale</title>
<main><p style="color: #ccc; background: #fff">Pale</p><img src="x"></main></html>"""


def test_what_is_serious_is_found_in_each_look(chromium: Any) -> None:
    page = chromium.new_page()
    page.set_content(PALE)
    page.add_script_tag(path=AXE)
    found = {theme: [line.split(":")[0] for line in problems(page, theme)] for theme, _ in LOOKS}
    assert found["light"] == ["serious color-contrast", "critical image-alt"]
    assert found["dark"] == ["serious color-contrast"]
    page.close()


def test_every_page_is_somebody_s(portal: screens.Portal) -> None:
    assert {page["user"] for page in portal.pages} == set(PEOPLE)


def put_on(page: Any, theme: str, size: dict[str, int]) -> None:
    """Change theme and width, and wait until both are drawn."""
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size(size)
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")


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
            screens.open_page(page, portal.url + item["url"], item["acts"])
            if item["name"].endswith("-wrong"):  # its form is refused, which browsers call an error
                refused = [one for one in wrong if "status of 400" in one]
                assert len(refused) == 1, (item["name"], wrong)
                wrong.remove(refused[0])
    context.close()
    assert wrong == []


def test_the_palette_works_by_keyboard_alone(portal: screens.Portal, chromium: Any) -> None:
    context = chromium.new_context(viewport=screens.WIDE)
    screens.sign_in(context, portal, "olga")
    page = context.new_page()
    screens.open_page(page, f"{portal.url}/console/system/")
    page.keyboard.press("Control+k")
    page.keyboard.type("audit")
    page.wait_for_selector("#palette [role=option][aria-selected=true] >> text=Audit log")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/audit/")
    page.keyboard.press("Control+k")
    page.wait_for_selector("#palette[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#palette:not([open])", state="attached")
    context.close()


def test_enter_in_the_palette_waits_for_the_answer_to_what_was_typed(
    portal: screens.Portal, chromium: Any
) -> None:
    context = chromium.new_context(viewport=screens.WIDE)
    screens.sign_in(context, portal, "olga")
    page = context.new_page()
    screens.open_page(page, f"{portal.url}/console/system/")
    page.keyboard.press("Control+k")
    page.wait_for_selector("#palette [role=option]")
    page.keyboard.type("audit")
    page.keyboard.press("Enter")  # at once: the list is still the one of before
    page.wait_for_url("**/console/audit/")
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
    expect(button).to_be_disabled()
    page.keyboard.type("alice")  # the field has the focus
    expect(button).to_be_enabled()
    context.close()


OFF_THE_MIDDLE = """
() => [...document.querySelectorAll('.sheet[popover]:not(.sheet-side)')].filter((sheet) => {
  sheet.showPopover();
  const box = sheet.getBoundingClientRect();
  sheet.hidePopover();
  return Math.abs(box.top - (innerHeight - box.bottom)) > 1;
}).map((sheet) => sheet.id)
"""


def test_each_question_of_a_page_of_settings_stands_in_the_middle(
    portal: screens.Portal, chromium: Any
) -> None:
    pages = [
        p for p in portal.pages if p["user"] and re.search("settings|console-user$", p["name"])
    ]
    wrong: dict[str, list[str]] = {}
    for user in sorted({p["user"] for p in pages}):
        context = chromium.new_context(viewport=screens.WIDE)
        screens.sign_in(context, portal, user)
        page = context.new_page()
        for item in (p for p in pages if p["user"] == user):
            screens.open_page(page, portal.url + item["url"])
            wrong[item["name"]] = page.evaluate(OFF_THE_MIDDLE)
        context.close()
    assert {name: found for name, found in wrong.items() if found} == {}
    assert len(wrong) > 3


def test_a_waiting_name_without_a_place_to_break_keeps_home_as_wide_as_the_screen(
    portal: screens.Portal, chromium: Any
) -> None:
    context = chromium.new_context(viewport=screens.NARROW)
    screens.sign_in(context, portal, "alice")
    page = context.new_page()
    screens.open_page(page, f"{portal.url}/")
    expect(page.locator(".waiting", has_text="x" * 51)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


def test_all_columns_of_the_nodes_are_in_sight_on_a_usual_screen(
    portal: screens.Portal, chromium: Any
) -> None:
    context = chromium.new_context(viewport=screens.WIDE)
    screens.sign_in(context, portal, "olga")
    page = context.new_page()
    paths = [one["url"] for one in portal.pages if one["name"] == "console-cluster-nodes-of-one"]
    screens.open_page(page, f"{portal.url}{paths[0]}")
    table = page.locator(".table-container", has_text="h100-0")
    assert table.evaluate("node => node.scrollWidth <= node.clientWidth")
    context.close()


def test_a_word_that_fits_on_a_card_is_not_broken_for_the_state_beside_it(
    portal: screens.Portal, chromium: Any
) -> None:
    context = chromium.new_context(viewport=screens.WIDE)
    screens.sign_in(context, portal, "alice")
    page = context.new_page()
    screens.open_page(page, f"{portal.url}/")
    name = page.locator(".workspace-head a", has_text="interpretability")
    lines = name.evaluate("node => node.getClientRects().length")
    assert lines == 1
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
