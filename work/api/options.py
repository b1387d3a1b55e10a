"""A kind's fields as the command line needs them: ``make schema`` writes them for it."""

from __future__ import annotations

from typing import Any

from django.utils import translation

from work import fields as f
from work.kinds import Kind

_UNITS = {f.Unit.CORES: "cores", f.Unit.GIB: "size", f.Unit.MINUTES: "minutes"}
_TYPES: dict[type[f.Field], str] = {
    f.Count: "count",
    f.Choice: "choice",
    f.Flag: "flag",
    f.Words: "words",
    f.Lines: "lines",
    f.Names: "names",
    f.Ports: "ports",
    f.Environment: "variables",
    f.Devices: "devices",
}


def options_of(kind: Kind) -> list[dict[str, Any]]:
    """Return each field as plain data, in English: what a command line makes an option of."""
    with translation.override("en"):
        return [_option(field) for field in kind.table]


def _option(field: f.Field) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": field.name,
        "option": field.option or field.name.replace("_", "-"),
        "type": _type(field),
        "metavar": field.metavar,
        "label": str(field.label),
        "help": str(field.help),
    }
    if field.edit is f.Edit.NEVER:
        found["chosen_once"] = True
    match field:
        case f.Count():
            found |= {"low": field.low, "high": field.high}
            found["label"] = found["label"].removesuffix(" in GiB").removesuffix(" in minutes")
        case f.Choice():
            found["choices"] = [word for word, _label in field.choices]
        case f.Names() | f.Ports() if field.has_usual:
            found["has_usual"] = True
        case _:
            pass
    return found


def _type(field: f.Field) -> str:
    """Return by which rules a command line reads its value."""
    if isinstance(field, f.Count) and field.unit in _UNITS:
        return _UNITS[field.unit]
    return next((word for one, word in _TYPES.items() if isinstance(field, one)), "text")
