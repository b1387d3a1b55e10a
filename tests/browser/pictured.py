"""The portal of the pictures, for tests that look at its pages."""

from __future__ import annotations

import pytest

from tools import screens


@pytest.fixture(scope="module")
def portal(pictured: screens.Portal) -> screens.Portal:
    return pictured
