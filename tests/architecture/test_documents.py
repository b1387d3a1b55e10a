"""Documents lead to what there is: their links, and the places where a change belongs."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "devcluster/README.md")
)


def anchors(document: Path) -> set[str]:
    """What its headings are called in addresses, as GitHub does it."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_of_a_document_leads_to_a_file_and_a_heading(document: str) -> None:
    text, wrong = (ROOT / document).read_text(), []
    for address in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", address):
            continue  # elsewhere
        path, _, anchor = address.partition("#")
        there = (ROOT / document).parent / path if path else ROOT / document
        if not there.exists() or (anchor and anchor not in anchors(there)):
            wrong.append(address)
    assert not wrong


def test_the_places_where_a_change_belongs_are_there() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    part = text.partition("## Where a change belongs")[2].partition("\n## ")[0]
    table = "\n".join(line for line in part.splitlines() if line.startswith("|"))
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*|Dockerfile)`", table))
    named -= {"api/serializers.py", "api/render.py", "ui/"}  # of each app
    named -= {"local/", "kubernetes/"}  # below runtime/drivers
    assert len(named) > 40
    assert not {place for place in named if not (ROOT / place).exists()}


def test_the_steps_of_a_launch_are_functions_that_there_are() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    part = text.partition("## A launch in fifteen steps")[2].partition("\n## ")[0]
    steps = re.findall(r"^\d+\. `([\w.]+)`", part, re.MULTILINE)
    assert 10 < len(steps) <= 15
    for step in steps:
        found, rest = pkgutil.resolve_name(step.split(".")[0]), step.split(".")[1:]
        for word in rest:
            name = f"{found.__name__}.{word}"
            found = getattr(found, word, None) or importlib.import_module(name)
        assert callable(found), step
