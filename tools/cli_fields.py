"""Writes the fields of each kind of work for the command line (``make schema``): its options are
made from them.
"""

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")

FIELDS = ROOT / "cli/berth_cli/fields.json"


def written() -> str:
    """The file as it must be; Django is set up."""
    from work.api.options import options_of
    from work.kinds import kinds

    found = {kind.word: options_of(kind) for kind in kinds()}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    import django

    django.setup()
    FIELDS.write_text(written())
