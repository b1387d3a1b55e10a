"""Writes what the table of settings says (``make settings``): the tables of docs/settings.md, and
the names that the chart takes.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from portal.settings.table import GROUPS, TABLE, Setting  # noqa: E402

PAGE = ROOT / "docs" / "settings.md"
NAMES = ROOT / "deploy/helm/berth/settings.txt"
BEGIN, END = "<!-- from portal/settings/table: make settings -->", "<!-- end of the tables -->"


def written(page: str) -> str:
    """The page with its tables as they must be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n\n".join(_table(title, rows) for title, rows in GROUPS.items())
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def names() -> str:
    return "".join(f"{name}\n" for name in sorted(one.variable for one in TABLE.values()))


def _table(title: str, rows: tuple[Setting, ...]) -> str:
    head = f"## {title}\n\n| name | value | default | meaning |\n|---|---|---|---|\n"
    return head + "\n".join(map(_row, rows))


def _row(one: Setting) -> str:
    meaning = f"{one.meaning} (read by {one.of} only)" if one.of else one.meaning
    cells = (f"`{one.variable}`", one.kind.said, one.said_default, meaning)
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
    NAMES.write_text(names())
