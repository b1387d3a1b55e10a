"""What every kind of credential says of itself, and the words for what is wrong with a field.

A kind reads what was pasted by an allow-list of its own before any library sees it. What it
keeps is what it read, written anew: nothing else that was in the text survives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from common.errors import wrong
from credentials.choices import CredentialKind

Given = Mapping[str, Any]
SECRET_MAX = 16 * 1024
LINE_MAX = 255


# What reading a secret tells of it, besides fields that somebody wrote.
TOLD: Mapping[str, Promise] = {
    "client_email": _lazy("Account"),
    "project_id": _lazy("Google project"),
    "private_key_id": _lazy("Number of the key"),
    "fingerprint": _lazy("Fingerprint"),
    "public_key": _lazy("Public half"),
    "names": _lazy("Names"),
}


class Part(StrEnum):
    """When a field may be written."""

    TARGET = "target"  # once: a secret that is stored never goes to another place
    SETTING = "setting"  # at any time
    SECRET = "secret"  # noqa: S105 - with the secret, anew with each rotation


class Shape(StrEnum):
    LINE = "line"
    TEXT = "text"  # several lines, or a file
    FLAG = "flag"
    CHOICE = "choice"
    PAIRS = "pairs"  # name → value


@dataclass(frozen=True)
class Field:
    """One field of form, API and CLI. ``hidden``: never shown again."""

    name: str
    label: str | Promise
    part: Part
    shape: Shape = Shape.LINE
    hidden: bool = False
    required: bool = True
    limit: int = LINE_MAX
    help: str | Promise = ""
    placeholder: str = ""
    initial: Any = None
    choices: tuple[tuple[str, str | Promise], ...] = ()


@dataclass(frozen=True)
class Read:
    """What came of the fields of the secret: what may be shown of it, and what may not."""

    public: Mapping[str, Any]
    secret: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class Kind:
    """``settings`` reads targets and settings, ``secret`` the rest; both raise Invalid.

    ``target`` says in one line what it opens, from what may be shown.
    """

    kind: CredentialKind
    about: str | Promise
    fields: tuple[Field, ...]
    settings: Callable[[Given], dict[str, Any]]
    secret: Callable[[Given], Read]
    target: Callable[[Mapping[str, Any]], str]

    def names(self, *parts: Part) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields if f.part in parts)

    def shown(self) -> tuple[str, ...]:
        """Fields whose values may be told."""
        return tuple(f.name for f in self.fields if not f.hidden)


def line(given: Given, name: str, *, limit: int = LINE_MAX, required: bool = True) -> str:
    """Return one printable line; nothing that could begin another line in a file."""
    text = given.get(name)
    text = "" if text is None else text
    if not isinstance(text, str):
        raise wrong(name, _("This must be text."))
    text = text.strip()
    if (required and not text) or len(text) > limit or not text.isprintable():
        raise wrong(name, _("One line of at most %d characters.") % limit)
    return text


def word(
    given: Given, name: str, *, least: int = 1, limit: int = SECRET_MAX, required: bool = True
) -> str:
    """Return letters, digits and signs of ASCII without a space between them."""
    text = line(given, name, limit=limit, required=required)
    if not text:
        return ""
    if not text.isascii() or " " in text or len(text) < least:
        raise wrong(
            name,
            _("At least %(least)d letters, digits or signs, without spaces. Is it whole?")
            % {"least": least},
        )
    return text


def flag(given: Given, name: str, *, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise wrong(name, _("This is yes or no."))
    return value
