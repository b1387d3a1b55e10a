"""Identifiers: opaque, safe in URLs, host names and Kubernetes labels."""

import re
import secrets
import uuid
from collections.abc import Collection

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # no l, o, 0, 1: people read these aloud
_SLUG_JUNK = re.compile(r"[^a-z0-9]+")


def new_uid() -> uuid.UUID:
    return uuid.uuid4()


def new_short_id(length: int = 10) -> str:
    """Return a random id that is a valid DNS label (first character a letter)."""
    first = secrets.choice(_ALPHABET[:23])
    return first + "".join(secrets.choice(_ALPHABET) for _ in range(length - 1))


def slugify(text: str, *, limit: int = 40) -> str:
    """Return a lower-case DNS-safe slug of ``text``, possibly empty."""
    return _SLUG_JUNK.sub("-", text.lower()).strip("-")[:limit].strip("-")


def is_uid(text: str) -> bool:
    """Whether text from outside (a label, a folder's name) can be one of our uids."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def next_name(base: str, taken: Collection[str], *, between: str = " ", most: int = 58) -> str:
    """Return ``base``, or ``base 2``, ``base 3`` …, whichever is free. ``most``: of it are kept."""
    if base not in taken:
        return base
    number = 2
    while f"{base[:most]}{between}{number}" in taken:
        number += 1
    return f"{base[:most]}{between}{number}"
