"""What apps above do with everything that people are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from common.hooks import Hook

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


@dataclass(frozen=True)
class Told:
    """One matter, as it was told. Matters that are told in several languages have one ``event``.

    ``shared``: the parameters as everybody in the project may read them.
    """

    event: UUID
    kind: str
    params: Mapping[str, Any]
    shared: Mapping[str, Any]
    url: str
    user_ids: frozenset[int]
    project_id: int | None
    at: datetime


# Called inside the transaction of the act.
told: Hook[[Told], None] = Hook()
