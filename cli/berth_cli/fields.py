"""Options of the command line for a kind of work, made from the portal's own table of fields.

``fields.json`` is written by ``make schema``; a field that the portal gets is an option here.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import click

from berth_cli import completing

Said = dict[str, Any]
_MIB = {"": 1, "M": 1, "MI": 1, "MIB": 1, "G": 1024, "GI": 1024, "GIB": 1024}
_SIZE = re.compile(r"\A(\d+(?:\.\d+)?)\s*([A-Za-z]*)\Z")
_ANY = "any"  # kind of GPU
_AGAIN = "May be repeated."
_QUOTED = "Quoted as one argument."
_COMPLETES: Mapping[str, Any] = {
    "volumes": completing.volumes,
    "credentials": completing.usable_credentials,
    "needs": completing.loads,
}


class Memory(click.ParamType):
    """16G, 512M; a plain number is MiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = _SIZE.match(str(value).strip())
        if found is None or found[2].upper() not in _MIB:
            self.fail(f"{value!r} is not a size such as 512M or 8G", param, ctx)
        return round(float(found[1]) * _MIB[found[2].upper()])


@cache
def fields_of(kind: str) -> list[dict[str, Any]]:
    """Return what may be said of a kind of work, in the order in which people read it."""
    text = resources.files("berth_cli").joinpath("fields.json").read_text(encoding="utf-8")
    return list(json.loads(text)[kind])


def field_options(
    kind: str, *, but: Sequence[str] = (), edits: bool = False
) -> Callable[[Any], Any]:
    """Add an option for each field; ``but``: those that the command takes otherwise.

    ``edits``: for those that may change later, and no others.
    """

    def add(command: Any) -> Any:
        for field in reversed(fields_of(kind)):
            left = field["name"] in but or (edits and field.get("chosen_once"))
            for option in () if left else _options(field):
                command = option(command)
        return command

    return add


def field_body(kind: str, said: Said) -> Said:
    """Return what the API takes for what was said; what was not said is left out."""
    body: Said = {}
    for field in fields_of(kind):
        name = field["name"]
        if said.get(f"no_{name}"):
            if said[name]:
                one = field["option"]
                raise click.UsageError(f"Say --{one} or --no-{_dashed(name)}, not both.")
            body[name] = []
        elif (value := said.get(name)) is not None and value != ():
            body[name] = _value(field, value)
    return body


def field_set(kind: str, pairs: Sequence[str]) -> Said:
    """Return what the API takes for NAME=VALUE, each as its option of ``edit`` would take it."""
    fields = [field for field in fields_of(kind) if not field.get("chosen_once")]
    known = {field["option"]: field for field in fields}
    named = {_dashed(field["name"]): field for field in fields} | known
    words: list[str] = []
    for pair in pairs:
        name, value = _pair(pair, "set")
        field = named.get(_dashed(name))
        if field is None:
            told = f"{name!r} is none of: {', '.join(known)}"
            raise click.BadParameter(told, param_hint="--set")
        if field["type"] != "flag":
            words += [f"--{field['option']}", value]
        elif value in {"true", "false"}:
            words.append(f"--{'' if value == 'true' else 'no-'}{field['option']}")
        else:
            raise click.BadParameter(f"{name} is true or false", param_hint="--set")
    command = field_options(kind, edits=True)(click.Command("set", params=[], callback=None))
    return field_body(kind, command.make_context("--set", words).params)


def _options(field: dict[str, Any]) -> list[Any]:  # noqa: C901 - one case per type
    name, kind = field["name"], field["type"]
    given: dict[str, Any] = {"help": _help(field)}
    match kind:
        case "choice":
            given["type"] = click.Choice(field["choices"])
        case "cores":
            given |= {"type": click.FloatRange(field["low"] / 1000, field["high"] / 1000)}
        case "size":
            given |= {"type": Memory(), "metavar": "SIZE"}
        case "minutes":
            given |= {"type": click.IntRange(0, field["high"]), "metavar": "MINUTES"}
        case "count":
            given |= {"type": click.IntRange(field["low"], field["high"]), "metavar": "N"}
        case "ports":
            given |= {"multiple": True, "metavar": "PORT[:NAME[:private]]"}
        case "names" | "devices" | "variables" | "lines":
            given |= {"multiple": True, "metavar": field["metavar"]}
        case _:
            given["metavar"] = field["metavar"]
    if complete := _COMPLETES.get(name):
        given["shell_complete"] = complete
    option = f"--{field['option']}"
    if kind == "flag":
        given = {"default": None, "help": given["help"]}
        option = f"{option}/--no-{field['option']}"
    made = [click.option(option, name, **given)]
    if field.get("has_usual"):
        none = f"No {field['label'].lower()}, not even the usual ones."
        made.append(click.option(f"--no-{_dashed(name)}", f"no_{name}", is_flag=True, help=none))
    return made


def _help(field: dict[str, Any]) -> str:  # noqa: PLR0911 - one per type
    """Return the words of the form, and how it is said here."""
    label, told = f"{field['label']}.", field["help"]
    match field["type"]:
        case "size":
            return " ".join(filter(None, (label, told, "Such as 16G or 512M; a number is MiB.")))
        case "devices":
            return f"{field['label']}, or {_ANY}; several: the first that is free."
        case "variables":
            return f"Variable of its environment. {_AGAIN}"
        case "words":
            return f"{label} {told} {_QUOTED}"
        case "ports":
            return f"Port that opens behind the sign-in; private: declared only. {_AGAIN}"
        case "names" | "lines":
            return " ".join(filter(None, (label, told, _AGAIN)))
        case _:
            return f"{label} {told}".rstrip()


def _value(field: dict[str, Any], value: Any) -> Any:  # noqa: PLR0911 - one per type
    match field["type"]:
        case "cores":
            return round(value * 1000)
        case "devices":
            return ",".join(kind for kind in value if kind != _ANY)
        case "variables":
            return dict(_pair(item, field["option"]) for item in value)
        case "words":
            return _words(value, field["option"])
        case "ports":
            return [_port(text, field["option"]) for text in value]
        case "names" | "lines":
            return list(value)
        case _:
            return value


def _pair(item: str, option: str) -> tuple[str, str]:
    name, found, value = item.partition("=")
    if not found or not name:
        raise click.BadParameter(f"{item!r} is not NAME=VALUE", param_hint=f"--{option}")
    return name, value


def _port(text: str, option: str) -> Said:
    number, name, tail = (*text.split(":"), "", "")[:3]
    if not number.isdecimal() or tail not in {"", "private"} or text.count(":") > 2:  # noqa: PLR2004
        message = f"{text!r} is not PORT, PORT:NAME or PORT:NAME:private"
        raise click.BadParameter(message, param_hint=f"--{option}")
    return {"port": int(number), "name": name, "web": tail != "private"}


def _words(text: str, option: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        message = f"a quotation mark is not closed in {text!r}"
        raise click.BadParameter(message, param_hint=f"--{option}") from error


def _dashed(name: str) -> str:
    return name.replace("_", "-")
