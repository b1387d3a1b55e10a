"""A credential read by its kind, without storing it."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import Invalid
from credentials.kinds import KINDS, Read
from tests.credentials import samples


def read(kind: str, **more: Any) -> Read:
    given = samples.fields(kind, **more)
    settings = KINDS[kind].settings(given)
    found = KINDS[kind].secret(given)
    return Read({**settings, **found.public}, found.secret)


def refusal(kind: str, **more: Any) -> Invalid:
    with pytest.raises(Invalid) as told:
        read(kind, **more)
    for name, value in more.items():
        assert not isinstance(value, str) or len(value) < 12 or value not in str(told.value), name
    return told.value
