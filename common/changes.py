"""What a plan says of each field before the act."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Change:
    """One field that would be set or changed. Values of an environment are never shown."""

    field: str
    before: Any
    after: Any
