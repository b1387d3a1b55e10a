"""docs/openapi.yaml is what the code says; `make schema` writes it."""

from pathlib import Path

import yaml
from django.core.management import call_command

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"


def test_the_committed_document_is_the_one_the_code_gives(tmp_path: Path) -> None:
    fresh = tmp_path / "openapi.yaml"
    call_command("spectacular", file=str(fresh), validate=True, fail_on_warn=True)
    assert yaml.safe_load(fresh.read_text()) == yaml.safe_load(COMMITTED.read_text()), (
        "run `make schema` and commit docs/openapi.yaml"
    )
