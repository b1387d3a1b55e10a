"""What an event says besides its verb, in the words of whoever reads it.

The message was written once, for everybody. Where it names things that have words for people
(roles, kinds of limits), the app that wrote it says here how they are read.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from django.utils.translation import gettext as _


class Told(Protocol):
    verb: str
    message: str


_readers: dict[str, Callable[[str], str]] = {}


def register(verbs: Iterable[str], read: Callable[[str], str]) -> None:
    """``read`` turns the message of these verbs into the reader's words."""
    _readers.update(dict.fromkeys(verbs, read))


def details_of(event: Told) -> str:
    """Return the message as the reader reads it; a sentence of ours in their language."""
    read = _readers.get(event.verb, _)
    return read(event.message) if event.message else ""
