"""Lists as people type them in a form, and back."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from django.forms import ValidationError
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PRIVATE_WORD = "private"  # a port that no browser opens


def words(text: str) -> list[str]:
    """Return a command line as words, as a shell would split it; nothing is expanded."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValidationError(_("A quotation mark is not closed."), code="invalid") from error


def line(given: Iterable[str]) -> str:
    return shlex.join(given)


def ports(text: str) -> list[dict[str, Any]]:
    """Return ports from lines such as ``7860``, ``7860 demo`` and ``5432 db private``."""
    return [_port(number, words) for number, words in _lines(text)]


def _lines(text: str) -> Iterable[tuple[int, list[str]]]:
    rows = enumerate(text.splitlines(), start=1)
    return [(number, row.split()) for number, row in rows if row.strip()]


def _port(number: int, said: list[str]) -> dict[str, Any]:
    digits, *rest = said
    wrong = ValidationError(
        _("Line %(n)d is not a port, or a port and its name.") % {"n": number}, code="invalid"
    )
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 5):  # noqa: PLR2004
        raise wrong
    private = PRIVATE_WORD in rest
    names = [word for word in rest if word != PRIVATE_WORD]
    if len(names) > 1:
        raise wrong
    return {"port": int(digits), "name": names[0] if names else "", "web": not private}


def port_lines(given: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(
        " ".join(
            [
                str(port["port"]),
                *([port["name"]] if port["name"] != f"port-{port['port']}" else []),
                *([] if port["web"] else [PRIVATE_WORD]),
            ]
        )
        for port in given
    )
