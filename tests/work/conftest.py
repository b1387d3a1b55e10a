"""Every kind of work on a fake machine."""

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _fresh_machine(world: Any) -> None:
    """No test sees what another one's machine did."""
