"""Folders that the portal's own user can reach."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter.

    Those of pytest lie below one of root's alone: started as root, the portal runs as the user
    ``berth``, which can't pass there.
    """
    with tempfile.TemporaryDirectory(prefix="berth-server-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
