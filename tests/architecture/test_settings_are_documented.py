"""One table has every setting: what is read, what is documented, passed on and known follow it."""

import re
import subprocess
from pathlib import Path

import pytest
from django.conf import settings as django_settings

from portal.settings.table import ELSEWHERE, TABLE, Setting
from tools import settings_page

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"\bBERTH_[A-Z0-9_]*[A-Z0-9]\b")
OTHERS = {name for names in ELSEWHERE.values() for name in names}
VARIABLES = {one.variable for one in TABLE.values()}


def test_the_page_is_what_the_table_says() -> None:
    page = settings_page.PAGE.read_text()
    assert settings_page.written(page) == page, "run `make settings`"
    assert settings_page.NAMES.read_text() == settings_page.names(), "run `make settings`"


def test_every_setting_of_the_table_is_read_and_no_other() -> None:
    code = "\n".join(p.read_text() for p in (ROOT / "portal" / "settings").glob("*.py"))
    read = re.findall(r"\b(?:text|number|flag|words|mapping)\(\s*\"([A-Z_]+)\"", code)
    assert {*read, "VAR"} == TABLE.keys()


def test_every_name_in_the_sources_is_a_setting_or_known_to_belong_elsewhere() -> None:
    """So that “there is no such setting” is never said of a name that somebody reads."""
    listed = subprocess.check_output(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, text=True
    )
    files = [ROOT / name for name in listed.split("\0") if not name.startswith("locale/")]
    texts = [p.read_text(errors="replace") for p in files if p.is_file() and p != Path(__file__)]
    used = {name for text in texts for name in NAME.findall(text)}
    of_django = {name for name in dir(django_settings) if name.startswith("BERTH_")}
    known = VARIABLES | OTHERS | of_django | {f"{name}_FILE" for name in VARIABLES}
    assert used - known == MISSPELT
    assert not VARIABLES & OTHERS


# In tests and documents, to show what is said of such a name.
MISSPELT = {"BERTH_OIDC_ISSUR"}


@pytest.mark.parametrize(
    "place", ["docker-compose.yml", "Dockerfile", "deploy/env.example", "deploy/helm/berth"]
)
def test_what_is_passed_to_processes_is_in_the_table(place: str) -> None:
    files = [p for p in [ROOT / place, *(ROOT / place).rglob("*")] if p.is_file()]
    passed = {name for file in files for name in NAME.findall(file.read_text())}
    compose = {*ELSEWHERE["docker-compose.yml"], *ELSEWHERE["the chart's Secret"]}
    assert passed
    assert passed - VARIABLES - {f"{name}_FILE" for name in VARIABLES} <= compose


@pytest.mark.parametrize("one", TABLE.values(), ids=TABLE.keys())
def test_a_default_is_of_its_kind_and_a_meaning_is_one_line(one: Setting) -> None:
    if isinstance(one.default, one.kind.holds):
        raw = ",".join(one.default) if isinstance(one.default, list) else str(one.default)
        if raw and one.default != {}:
            raw = one.said_default if isinstance(one.default, bool) and not one.otherwise else raw
            assert one.kind.read(raw) == one.default
    else:
        assert one.otherwise, "a default that other settings give must be said"
    assert "\n" not in one.meaning + one.otherwise + one.kind.said
    assert "|" not in one.meaning + one.otherwise + one.kind.said
