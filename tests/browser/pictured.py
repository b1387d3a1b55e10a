"""The portal of the pictures and a Chromium on it, for tests that look at its pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools import screens


@pytest.fixture(scope="module")
def portal(pictured: screens.Portal) -> screens.Portal:
    return pictured


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with screens.browser() as running:
        yield running
