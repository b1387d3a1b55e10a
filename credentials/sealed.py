"""A column for a mapping of texts that nobody reads in the database or in a backup of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from django.db import models

from credentials.sealing import seal, unseal

# Sealed texts of credentials name their row, these only their purpose: whoever could move one to
# another row could as well give its row another owner. A new table can take them as they are.
_PURPOSE = "mapping"


class Sealed(Mapping[str, str]):
    """A mapping as it lies in the database, opened when a name or a value is asked for.

    A row whose key is lost can so be listed, stopped and deleted; asking raises Unavailable.
    """

    def __init__(self, text: str) -> None:
        self.text = text  # the name of the key, a point, what it sealed

    @cached_property
    def _opened(self) -> dict[str, str]:
        return unseal(_PURPOSE, self.text.partition(".")[2])

    def __getitem__(self, name: str) -> str:
        return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._opened)

    def __len__(self) -> int:
        return len(self._opened)

    def __repr__(self) -> str:
        return "<Sealed>"


def sealed(mapping: Mapping[str, str]) -> Sealed:
    """Return ``mapping`` sealed with the newest key, or raise Unavailable where there is none."""
    text, key = seal(_PURPOSE, dict(mapping))
    return Sealed(f"{key}.{text}")


class SealedMapping(models.JSONField):
    """Keeps a mapping of texts sealed: as a JSON string; an empty one as ``{}``.

    An object in its place is of a version that did not seal; it is read as it is until
    ``credentials.rekey`` has sealed it. To migrations it is a JSONField: they see what is stored.
    """

    def deconstruct(self) -> Any:
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        held = super().from_db_value(value, expression, connection)
        return Sealed(held) if isinstance(held, str) else held

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, Sealed):
            return value.text  # a row that is saved with what it was read with
        return sealed(value).text if value else value
