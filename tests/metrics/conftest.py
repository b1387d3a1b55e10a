"""Samples as they come: every ten seconds, or whenever a test says."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from common.ids import new_uid
from metrics.models import Sample

NOON = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)


@pytest.fixture
def uid() -> UUID:
    return new_uid()


@pytest.fixture
def note(db: None, uid: UUID) -> Callable[..., Sample]:
    def make(at: datetime, **values: Any) -> Sample:
        return Sample.objects.create(**{"uid": uid, "at": at, **values})

    return make
