"""Compare what a builder made with a file that people can read.

``BERTH_UPDATE_GOLDEN=1`` writes the files anew: read the difference before committing it.
"""

import os
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent / "golden"


def check(name: str, *objects: dict) -> None:
    path = FOLDER / f"{name}.yaml"
    made = yaml.safe_dump_all(_plain(objects), sort_keys=True, width=100, allow_unicode=True)
    if os.environ.get("BERTH_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made)
    assert made == path.read_text()


def _plain(value):
    """Strings that are enums become strings; nothing is shared, so no anchors are written."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, str) else value
