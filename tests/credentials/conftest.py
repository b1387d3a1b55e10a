"""Credentials of every kind, stored as a manager does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.common.conftest import serve  # noqa: F401 - a fixture
from tests.credentials import samples


@pytest.fixture
def keep(project: Any, alice: Any, principal: Any) -> Callable[..., Any]:
    """Store one: ``keep("s3")`` in the project, ``keep("s3", own=bob)`` for a person."""
    from credentials.services import Label, credential_add

    def store(kind: str, name: str = "", *, own: Any = None, **more: Any) -> Any:
        label = Label(name or f"my {kind}", usable_by=more.pop("usable_by", "members"))
        return credential_add(
            principal=principal(own or alice),
            project=None if own else project,
            kind=kind,
            label=label,
            fields=samples.fields(kind, **more),
        )

    return store
