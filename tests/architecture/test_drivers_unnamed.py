"""No app but ``runtime`` and ``clusters`` asks which driver a cluster has: they ask what it can do.

That none imports a driver is a contract in ``.importlinter``.
"""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KNOW_DRIVERS = {"runtime", "clusters"}
# What its driver is called may be said to people, by this filter and no other way.
SHOWN = re.compile(r"\.driver\b(?!\|driver_words\b)")


def apps() -> list[str]:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    return sorted({*contracts["importlinter"]["root_packages"].split()} - KNOW_DRIVERS)


def asked(tree: ast.AST) -> Iterator[int]:
    """Lines that read the column ``driver`` or look rows up by it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "driver":
            yield node.lineno
        if isinstance(node, ast.keyword) and (node.arg or "").partition("__")[0] == "driver":
            yield node.value.lineno
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "").startswith("values"):
            for arg in node.args:
                if isinstance(arg, ast.Constant) and arg.value == "driver":
                    yield arg.lineno


@pytest.mark.parametrize("app", apps())
def test_no_app_asks_which_driver_a_cluster_has(app: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / app).rglob("*.py"))
        for line in asked(ast.parse(path.read_text()))
    ]
    assert not found, "ask `cluster.traits` (docs/dev/drivers.md)"


def test_no_page_asks_which_driver_a_cluster_has() -> None:
    pages = sorted((ROOT / "templates").rglob("*.html"))
    assert [str(page.relative_to(ROOT)) for page in pages if SHOWN.search(page.read_text())] == []


@pytest.mark.parametrize(
    "line",
    [
        "if cluster.driver in LOCAL: ...",
        'rows.filter(driver="kubernetes")',
        "rows.exclude(cluster.driver == 'x')",
        "rows.filter(driver__in=LOCAL)",
        'rows.values_list("key", "driver")',
    ],
)
def test_the_question_is_recognised(line: str) -> None:
    assert list(asked(ast.parse(line))) == [1]
