"""One way to print: a table for people, JSON or YAML for programs."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import click

Column = tuple[str, Callable[[dict[str, Any]], Any]]


def emit(data: Any, *, fmt: str, columns: Sequence[Column] = ()) -> None:
    """Print ``data``; for a table, rows by ``columns`` (header, getter)."""
    if fmt == "json":
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    elif fmt == "yaml":
        import yaml  # takes a tenth of the time of a command that prints a table

        click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)
    elif isinstance(data, list):
        _table(data, columns)
    else:
        _record(data, columns)


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(_cell(v) for v in value) or "-"
    # names come from other people: nothing in them may steer the terminal
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))


def moment(text: str | None) -> str | None:
    """Return a time of the portal by this machine's clock; programs get it as it was said."""
    try:
        return datetime.fromisoformat(text or "").astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return text


def age(text: str | None) -> str | None:
    """Return how long ago that was, in its largest unit: ``3 d``, ``5 h``, ``12 min``."""
    if not text:
        return None
    seconds = max(0, int((datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()))
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def size(count: float | None) -> str | None:
    """Return bytes as the pages write them: ``1.5 GiB``."""
    if count is None:
        return None
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    step = 0
    while abs(count) >= 1024 and step < len(units) - 1:  # noqa: PLR2004 - binary units
        count, step = count / 1024, step + 1
    return f"{count:.1f}".removesuffix(".0") + f" {units[step]}"


def mib(count: float | None) -> str | None:
    """The same of a number of MiB."""
    return None if count is None else size(count * 1024**2)


def cpus(milli: int) -> str:
    return f"{milli / 1000:.2f}".rstrip("0").rstrip(".")


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _table(rows: list[dict[str, Any]], columns: Sequence[Column]) -> None:
    if not rows:
        click.echo("Nothing here yet.", err=True)
        return
    cells = [[name for name, _ in columns]]
    cells += [[_cell(get(row)) for _, get in columns] for row in rows]
    widths = [max(_width(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        padded = [text + " " * (widths[i] - _width(text)) for i, text in enumerate(line)]
        click.echo("  ".join(padded).rstrip())


def _record(row: dict[str, Any], columns: Sequence[Column]) -> None:
    width = max((len(name) for name, _ in columns), default=0)
    for name, get in columns:
        click.echo(f"{name + ':':<{width + 2}}{_cell(get(row))}")


def refused(error: OSError) -> str:
    """Say what this machine refused."""
    why, name = error.strerror or str(error), error.filename
    return printable(f"{os.fsdecode(name)}: {why}" if isinstance(name, str | bytes) else why)


def printable(text: str) -> str:
    """Log text as it is, but without control sequences that could steer the terminal."""
    return "".join(c if c in "\n\t" or c.isprintable() else "" for c in text)
