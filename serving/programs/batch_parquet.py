"""Writes predictions as Parquet once all are there: columns of what is in the lines of JSON.

Every row has the same columns, so the lines are read twice: first for the types, then to write
them, some rows at a time. What has no type in common is JSON as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .files import LACKS, RefusedError

# A type: a word, None (nothing was there), a list with that of its elements, or one by name.
Kind = str | None | list[Any] | dict[str, Any]
MOST_ROWS, MOST_BYTES = 10_000, 16 * 2**20  # of lines that are written together
MOST_COLUMNS = 500  # of one object; beyond that it is text
_INT64 = 2**63


def require_parquet() -> None:
    """Refuse before anything is predicted where it could not be written."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as problem:
        said = "pyarrow, which writes Parquet, is not installed here."
        raise RefusedError(said, LACKS) from problem


def parquet_of(lines: Path) -> Path:
    return lines.with_suffix(".parquet")


def to_parquet(files: Sequence[Path]) -> None:
    """Write each file of lines as Parquet beside it, all with the same columns."""
    import pyarrow as pa
    from pyarrow import parquet

    kinds: dict[str, Kind] = {}
    for path in files:
        for line in _lines(path):
            for name, value in line.items():
                kinds[name] = joined(kinds.get(name), kind_of(value))
    columns = kinds or {"file": "text", "line": "int", "prediction": "json"}
    schema = pa.schema([(name, _arrow(kind)) for name, kind in columns.items()])
    for path in files:
        part = path.with_suffix(".part")
        with parquet.ParquetWriter(part, schema) as writer:
            for rows in _together(path):
                made = {
                    name: [fitted(row.get(name), kind) for row in rows]
                    for name, kind in columns.items()
                }
                writer.write_table(pa.Table.from_pydict(made, schema=schema))
        part.replace(parquet_of(path))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            yield json.loads(line)


def _together(path: Path) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    size = 0
    with path.open("rb") as file:
        for line in file:
            rows.append(json.loads(line))
            size += len(line)
            if len(rows) >= MOST_ROWS or size >= MOST_BYTES:
                yield rows
                rows, size = [], 0
    if rows:
        yield rows


def kind_of(value: Any) -> Kind:
    """Return what a value of JSON is."""
    if isinstance(value, list):
        return [_all(map(kind_of, value))]
    if isinstance(value, dict):
        fits = 0 < len(value) <= MOST_COLUMNS
        return {name: kind_of(its) for name, its in value.items()} if fits else "json"
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        return "json"
    words = {bool: "bool", int: "int", float: "float", str: "text"}
    return None if value is None else words[type(value)]


def _all(kinds: Iterable[Kind]) -> Kind:
    found: Kind = None
    for kind in kinds:
        found = joined(found, kind)
    return found


def joined(one: Kind, other: Kind) -> Kind:
    """Return the type that both have."""
    if one is None or one == other:
        return other
    if other is None:
        return one
    if isinstance(one, list) and isinstance(other, list):
        return [joined(one[0], other[0])]
    if isinstance(one, dict) and isinstance(other, dict):
        both = {name: joined(one.get(name), other.get(name)) for name in {**one, **other}}
        return both if len(both) <= MOST_COLUMNS else "json"
    return "float" if one in ("int", "float") and other in ("int", "float") else "json"


def fitted(value: Any, kind: Kind) -> Any:
    """Return a value as its column has it."""
    if value is None:
        return None
    if isinstance(kind, list):
        return [fitted(one, kind[0]) for one in value]
    if isinstance(kind, Mapping):
        return {name: fitted(value.get(name), its) for name, its in kind.items()}
    if kind == "json":
        return json.dumps(value, ensure_ascii=False)
    return float(value) if kind == "float" else value


def _arrow(kind: Kind) -> Any:
    import pyarrow as pa

    if isinstance(kind, list):
        return pa.list_(_arrow(kind[0]))
    if isinstance(kind, Mapping):
        return pa.struct([(name, _arrow(its)) for name, its in kind.items()])
    plain = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}
    return plain.get(kind or "", pa.string())
