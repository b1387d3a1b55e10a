"""Identifiers: opaque, safe in URLs, host names and Kubernetes labels."""

import re
import secrets
import uuid

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
