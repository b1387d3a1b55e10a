"""What only ``make test-long`` runs says why, and what proves the same in ``make test``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
FILE = re.compile(r"[\w/]*test_\w+\.py")


def reasons() -> Iterator[tuple[str, list[str]]]:
    """Each ``pytest.mark.long(…)`` of the tests: where it stands, and what it says."""
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if "mark.long" not in text:
            continue
        tree = ast.parse(text)
        said = {
            id(node.func): [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node).endswith("mark.long"):
                yield f"{path.relative_to(TESTS)}:{node.lineno}", said.get(id(node), [])


@pytest.mark.parametrize(("where", "said"), [pytest.param(*one, id=one[0]) for one in reasons()])
def test_a_test_of_the_long_tier_names_what_is_there(where: str, said: list[str]) -> None:
    assert said, "say why it is only in `make test-long`"
    beside = (TESTS / where.partition(":")[0]).parent
    folders = (TESTS, beside, *(TESTS / folder for folder in ("cluster", "drivers/kubernetes")))
    for name in FILE.findall(said[0]):
        assert any((folder / name).exists() for folder in folders), f"there is no {name}"
