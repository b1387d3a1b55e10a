"""Other secrets: variables as they are named, files with a variable that holds their path."""

from __future__ import annotations

from collections.abc import Sequence

from credentials.choices import GivenAs
from credentials.embedding.items import FOLDER, Item
from credentials.kinds.generic import variable_of


def env(items: Sequence[Item]) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in _given_as(items, GivenAs.FILE):
        for name in item.public["names"]:
            found.setdefault(variable_of(name), f"{FOLDER}/{_file(item, name)}")
    return found


def secret_env(items: Sequence[Item]) -> dict[str, str]:
    """Of two with one name the first counts."""
    found: dict[str, str] = {}
    for item in _given_as(items, GivenAs.ENV):
        for name, value in item.secret.items():
            found.setdefault(name, value)
    return found


def files(items: Sequence[Item]) -> dict[str, str]:
    return {
        _file(item, name): value
        for item in _given_as(items, GivenAs.FILE)
        for name, value in item.secret.items()
    }


def _given_as(items: Sequence[Item], how: GivenAs) -> list[Item]:
    return [item for item in items if item.public.get("given_as") == how]


def _file(item: Item, name: str) -> str:
    return f"secret-{item.alias}-{name}"
