"""The quick run neither asks the whole schema nor works out what it would ask."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Cases are made while tests are collected: seconds in each process that then leaves them out."""
    quick = "not slow" in config.option.markexpr
    return True if quick and collection_path.name == "test_f1_whole_schema.py" else None
