"""Which keys a path means. Pure.

People write ``s3://bucket/images`` and mean that object, or what lies below that folder; a store
knows only beginnings of keys, so ``images-old/`` begins with it too. A path that ends with a
slash means what lies below it; without one, the last word is kept in the target, as ``cp -r``
does. The copying program takes a beginning and patterns, so this says the one by the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loaders.choices import Direction

if TYPE_CHECKING:
    from loaders.models import Load

_SPECIAL = str.maketrans({"*": "[*]", "?": "[?]", "[": "[[]"})


def store_part(row: Load) -> dict[str, Any]:
    """Return prefix and objects of the plan."""
    prefix: str = row.prefix
    if row.direction == Direction.OUT and prefix and not prefix.endswith("/"):
        prefix += "/"  # an export goes into a folder, never beside it
    if row.direction == Direction.OUT or not row.objects_listed:
        return {"prefix": prefix, "objects": None}
    # keys of a list are whole; what is above the last folder of the path is not repeated
    folder = prefix if not prefix or prefix.endswith("/") else f"{prefix}/"
    return {"prefix": folder, "objects": list(row.objects_listed)}


def patterns(row: Load) -> dict[str, list[str]]:
    """Return include and exclude of the plan."""
    include, exclude = list(row.include), list(row.exclude)
    last = row.prefix.rpartition("/")[2]
    if row.direction == Direction.OUT or row.objects_listed or not last:
        return {"include": include, "exclude": exclude}
    word = last.translate(_SPECIAL)
    below = [_below(word, pattern) for pattern in include]
    return {
        "include": below or [f"{word}/**", f"/{word}"],
        "exclude": [_below(word, pattern) for pattern in exclude],
    }


def target(*, folder: str, prefix: str, listed: bool) -> str:
    """Return the folder of the volume that an import writes into, and deletes in."""
    last = "" if listed else prefix.rpartition("/")[2]
    return "/".join(part for part in (folder, last) if part)


def _below(word: str, pattern: str) -> str:
    """Return a pattern for names below the folder ``word`` as one for names beside it."""
    inside = pattern.removeprefix("/")
    return f"{word}/{inside}" if "/" in pattern.rstrip("/") else f"{word}/**/{inside}"
