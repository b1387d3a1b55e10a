"""docs/settings.md names every setting that is read, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_setting_that_is_read_is_documented_and_no_other() -> None:
    code = "\n".join(p.read_text() for p in (ROOT / "portal" / "settings").glob("*.py"))
    read = set(re.findall(r"\b(?:text|number|flag|words)\(\s*\"([A-Z_]+)\"", code)) | {"VAR"}
    documented = set(
        re.findall(
            r"^\| `BERTH_([A-Z_]+)` \|", (ROOT / "docs/settings.md").read_text(), re.MULTILINE
        )
    )
    assert read == documented
