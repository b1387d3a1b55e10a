"""The portal of the pictures and a Chromium on it, for tests that look at its pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.ports import free_port
from tools import screens


@pytest.fixture(scope="module")
def portal() -> Iterator[screens.Portal]:
    with screens.portal(free_port()) as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with screens.browser() as running:
        yield running
