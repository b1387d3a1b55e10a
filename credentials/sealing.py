"""Secrets at rest: sealed with the newest key, opened with any that is known; a column for them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import models
from django.utils.translation import gettext as _

from common.errors import Unavailable


@dataclass(frozen=True)
class Ring:
    """The keys, newest first; ``name`` is of the newest and says nothing about it."""

    box: MultiFernet
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.names[0]


def ring() -> Ring:
    """Return the keys of now; Unavailable where there is none."""
    keys = tuple(settings.BERTH_CREDENTIAL_KEYS)
    if not keys:
        raise Unavailable(
            _("BERTH_CREDENTIAL_KEYS is not set, so no secret can be kept."), code="no-key"
        )
    return ring_of(keys)


@lru_cache(maxsize=8)
def ring_of(keys: tuple[str, ...]) -> Ring:
    derived = [
        HKDF(SHA256(), 32, salt=None, info=b"berth credentials v1").derive(key.encode())
        for key in keys
    ]
    made = [base64.urlsafe_b64encode(key) for key in derived]
    names = tuple(hashlib.sha256(b"berth key name" + key).hexdigest()[:16] for key in made)
    return Ring(MultiFernet([Fernet(key) for key in made]), names)


def seal(of: UUID | str, secret: dict[str, str]) -> tuple[str, str]:
    """Return (sealed text, name of the key)."""
    now = ring()
    text = json.dumps({"of": str(of), "secret": secret}, separators=(",", ":"))
    return now.box.encrypt(text.encode()).decode(), now.name


def unseal(of: UUID | str, sealed: str) -> dict[str, str]:
    """Return the secret, or raise Unavailable: no known key opens it, or it belongs elsewhere."""
    try:
        held = json.loads(ring().box.decrypt(sealed.encode()))
    except InvalidToken:
        raise Unavailable(
            _(
                "No key of BERTH_CREDENTIAL_KEYS opens this secret. Put back the key that it was"
                " sealed with, or store the secret again."
            ),
            code="wrong-key",
        ) from None
    if held.get("of") != str(of):
        raise Unavailable(_("This secret belongs to something else."), code="wrong-key")
    return {str(k): str(v) for k, v in held["secret"].items()}


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
