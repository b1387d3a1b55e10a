"""Reads instances of a batch prediction: JSON lines, CSV and Parquet, from any place on.

Nothing is held but the record that is read. What is no instance is a record with a problem.
"""

from __future__ import annotations

import base64
import csv
import gzip
import heapq
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .files import LACKS, MISSING, REFUSED, RefusedError

MOST_LINE = 8 * 2**20  # bytes of one line, and of one row of CSV
KINDS = {".jsonl": "json", ".ndjson": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}
ENCODINGS = ("utf-8", "cp932", "euc_jp")  # of CSV; in none of them is half a letter an end of line
LOOKED_AT = 2**20  # bytes of a CSV file by which its letters are known
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
PARQUET_BUFFER = 2**20  # bytes of each column
csv.field_size_limit(MOST_LINE)


@dataclass(frozen=True)
class Place:
    """How far the input is read: in which file, after which line and which byte (or row)."""

    file: int = 0
    line: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Record:
    """One instance as JSON, or why there is none. ``after``: where the next one begins.

    ``share``: how much of its file is read then, from 0 to 1.
    """

    file: str
    line: int
    after: Place
    body: bytes = b""
    problem: str = ""
    share: float = 0.0


@dataclass(frozen=True)
class Shape:
    """How a row of columns becomes an instance, by what the model says that it takes.

    ``names``: an object with these; ``count``: a list of so many; neither: an object with all.
    """

    names: tuple[str, ...] = ()
    count: int = 0
    is_single: bool = False  # of the one column its value, in no list
    encoding: str = "utf-8"  # of CSV

    def check(self, header: Sequence[str], width: int) -> str:
        """Return what is wrong with columns that are called so; "": they fit."""
        if self.names and header:
            missing = [name for name in self.names if name not in header]
            names = ", ".join(missing[:5])
            return f"It has no column {names}, which the model takes." if missing else ""
        wanted = len(self.names) or self.count
        if wanted and width != wanted:
            return f"It has {width} columns, and the model takes {wanted}."
        return ""

    def instance(self, header: Sequence[str], values: Sequence[Any]) -> Any:
        if self.names:
            named = dict(zip(header or self.names, values, strict=True))
            return {name: named[name] for name in self.names}
        if header and not self.count:
            return dict(zip(header, values, strict=True))
        return values[0] if self.is_single else list(values)


def files_in(place: Path, but: Path) -> list[Path]:
    """Return the files with instances, by name; no links, nothing hidden, nothing below ``but``."""
    if not place.exists():
        raise RefusedError(f"There is no {place.name}.", MISSING)
    if place.is_file():
        found = [place]
    else:
        found = []
        for folder, below, names in os.walk(place):
            below[:] = sorted(n for n in below if n[:1] not in "._" and Path(folder, n) != but)
            paths = [Path(folder, name) for name in names if name[:1] not in "._"]
            found += [path for path in paths if kind_of(path) and not path.is_symlink()]
    if not found or not kind_of(found[0]):
        said = "There is no file that ends in .jsonl, .csv or .parquet (.gz after the first two)"
        raise RefusedError(f"{said}: {place.name}.", MISSING)
    return sorted(found)


def kind_of(path: Path) -> str:
    """Return what it holds by its name; "": no instances."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    kind = KINDS.get(plain.suffix.lower(), "")
    return "" if kind == "parquet" and plain is not path else kind


def check_columns(files: Sequence[Path], shape: Shape) -> None:
    """Refuse a file whose columns the model does not take, before anything is predicted."""
    for path in files:
        kind = kind_of(path)
        if kind == "json" or not path.stat().st_size:
            continue
        if kind == "parquet":
            header = [str(name) for name in _parquet(path).schema_arrow.names]
            width = len(header)
        else:
            _check_letters(path, shape.encoding)
            header, width, _after = _header(path, shape.encoding)
        if width and (wrong := shape.check(header, width)):
            raise RefusedError(f"{path.name}: {wrong}", REFUSED)


def records(
    files: Sequence[Path], names: Sequence[str], at: Place, shape: Shape
) -> Iterator[Record]:
    """Return each record from ``at`` on; ``names``: what the files are called in the output."""
    readers: dict[str, Callable[..., Iterator[Record]]] = {
        "json": _json_lines,
        "csv": _csv_rows,
        "parquet": _parquet_rows,
    }
    for number in range(at.file, len(files)):
        start = at if number == at.file else Place(number)
        yield from readers[kind_of(files[number])](files[number], names[number], start, shape)


def opened(path: Path) -> Any:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _share_of(path: Path, file: Any) -> Callable[[int], float]:
    """Return what says how much is read, given how many bytes: of a packed file, packed ones."""
    size, is_packed = max(1, path.stat().st_size), path.suffix == ".gz"
    return lambda offset: min(1.0, (file.fileobj.tell() if is_packed else offset) / size)


# --- JSON lines -----------------------------------------------------------------------------------


def _json_lines(path: Path, name: str, at: Place, _shape: Shape) -> Iterator[Record]:
    line, offset = at.line, at.offset
    with opened(path) as file:
        share = _share_of(path, file)
        file.seek(offset)
        while data := file.readline(MOST_LINE + 1):
            line += 1
            offset += len(data)
            problem = ""
            if len(data) > MOST_LINE:
                problem = f"The line is longer than {MOST_LINE // 2**20} MiB."
                while not data.endswith(b"\n") and (data := file.readline(MOST_LINE)):
                    offset += len(data)
            text = data.removeprefix(b"\xef\xbb\xbf").strip() if not problem else b""
            if not text and not problem:
                continue
            problem = problem or _wrong_json(text)
            after = Place(at.file, line, offset)
            body = b"" if problem else text
            yield Record(name, line, after, body, problem, share(offset))


def _wrong_json(text: bytes) -> str:
    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        json.loads(text.decode(), parse_constant=refuse)
    except UnicodeDecodeError:
        return "The line is not UTF-8."
    except json.JSONDecodeError as problem:
        return f"The line is no JSON: {problem.msg} at character {problem.pos + 1}."
    except RecursionError:
        return "The line is nested too deeply."
    except ValueError as problem:
        return f"The line is no JSON: {problem}."
    return ""


# --- CSV ------------------------------------------------------------------------------------------


class _TooLongError(Exception):
    """A row that does not end."""


def _check_letters(path: Path, encoding: str) -> None:
    """Refuse a file of other letters before anything is predicted, and say what they may be."""
    with opened(path) as file:
        head = file.read(LOOKED_AT)
    if head[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        raise RefusedError(f"{path.name} is UTF-16: save it as UTF-8.", REFUSED)
    if _reads(head, encoding):
        return
    likely = next((one for one in ENCODINGS if one != encoding and _reads(head, one)), "")
    name = {"utf-8": "UTF-8", "cp932": "Shift-JIS", "euc_jp": "EUC-JP"}
    said = f"{path.name} is not {name.get(encoding, encoding)}"
    if likely:
        said += f"; it reads as {name[likely]}: say so by the encoding {likely}, or save it anew"
    raise RefusedError(f"{said}.", REFUSED)


def _reads(head: bytes, encoding: str) -> bool:
    """Whether so much of a file is of these letters; its end may cut one, a few may be wrong."""
    text = head.decode(encoding, "replace")
    return text.count("\ufffd") <= 1 + len(text) // 1000


class _Lines:
    """Lines of a file as text for ``csv``, which takes as many as a row has; it counts bytes."""

    def __init__(self, file: IO[bytes], at: Place, encoding: str) -> None:
        self.file, self.line, self.offset = file, at.line, at.offset
        self.encoding = encoding
        self.began = at.offset

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        data = self.file.readline(MOST_LINE + 1)
        if not data:
            raise StopIteration
        is_first, self.offset = self.offset == 0, self.offset + len(data)
        self.line += data.endswith(b"\n") or len(data) <= MOST_LINE
        if self.offset - self.began > MOST_LINE:
            raise _TooLongError
        is_utf8 = self.encoding == "utf-8"
        return data.decode("utf-8-sig" if is_first and is_utf8 else self.encoding)


def _header(path: Path, encoding: str) -> tuple[list[str], int, Place]:
    """Return the names of the columns, how many there are, and where the rows begin.

    Numbers alone are no names: then there are none.
    """
    with opened(path) as file:
        lines = _Lines(file, Place(), encoding)
        try:
            first = next(csv.reader(lines), [])
        except (csv.Error, UnicodeDecodeError, _TooLongError) as problem:
            said = f"is not {encoding}" if isinstance(problem, UnicodeError) else "can't be read"
            raise RefusedError(f"{path.name}: its first line {said}.", REFUSED) from problem
    names = [name.strip() for name in first]
    if all(NUMBER.fullmatch(name) or not name for name in names):
        return [], len(names), Place()
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise RefusedError(f"{path.name}: two columns are called {twice}.", REFUSED)
    return names, len(names), Place(0, lines.line, lines.offset)


def _csv_rows(path: Path, name: str, at: Place, shape: Shape) -> Iterator[Record]:
    header, width, first = _header(path, shape.encoding)
    start = at if at.offset >= first.offset else Place(at.file, first.line, first.offset)
    with opened(path) as file:
        share = _share_of(path, file)
        file.seek(start.offset)
        lines = _Lines(file, start, shape.encoding)
        reader = csv.reader(lines)
        while True:
            lines.began, line, body, problem = lines.offset, lines.line + 1, b"", ""
            try:
                row = next(reader)
                if not row:
                    continue
                if len(row) != width:
                    problem = f"The row has {len(row)} values, and the first one {width}."
                else:
                    instance = shape.instance(header, [_value(text) for text in row])
                    body = json.dumps(instance, ensure_ascii=False).encode()
            except StopIteration:
                return
            except UnicodeDecodeError:
                problem = f"The row is not {shape.encoding.upper()}."
            except UnicodeEncodeError:
                problem = "The row has characters that are none."
            except _TooLongError:
                problem = f"The row is longer than {MOST_LINE // 2**20} MiB: is a quote left open?"
            except csv.Error as error:
                problem = f"The row is no CSV: {error}."
            if problem:
                reader = csv.reader(lines)  # the old one may be in the middle of a row
            after = Place(at.file, lines.line, lines.offset)
            yield Record(name, line, after, body, problem, share(lines.offset))


def _value(text: str) -> Any:
    """Return a number where it is written as one, null where there is nothing."""
    plain = text.strip()
    if not plain:
        return None
    if not (found := NUMBER.fullmatch(plain)) or len(plain) > 40:  # noqa: PLR2004 - digits
        return text
    return float(plain) if found[2] or found[3] else int(plain)


# --- Parquet --------------------------------------------------------------------------------------


def _parquet(path: Path) -> Any:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as problem:
        said = "pyarrow, which reads Parquet, is not installed here"
        raise RefusedError(f"{path.name}: {said}.", LACKS) from problem
    try:  # a piece of each column at a time: a row group may be larger than the memory
        return ParquetFile(path, buffer_size=PARQUET_BUFFER, pre_buffer=False)
    except (ArrowException, OSError) as problem:
        raise RefusedError(f"{path.name} is no Parquet file.", REFUSED) from problem


def _parquet_rows(path: Path, name: str, at: Place, shape: Shape) -> Iterator[Record]:
    if not path.stat().st_size:
        return
    file, row = _parquet(path), 0
    header = [str(one) for one in file.schema_arrow.names]
    groups: list[int] = []
    for group in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if groups or row + size > at.offset:
            groups.append(group)
        else:
            row += size
    for batch in file.iter_batches(batch_size=256, row_groups=groups, use_threads=False):
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            row += 1
            if row <= at.offset:
                continue
            after, body, problem = Place(at.file, row, row), b"", ""
            try:
                instance = shape.instance(header, values)
                text = json.dumps(instance, ensure_ascii=False, allow_nan=False, default=_plain)
                body = text.encode()
                if len(body) > MOST_LINE:
                    body, problem = b"", f"The row is longer than {MOST_LINE // 2**20} MiB."
            except (ValueError, TypeError) as error:
                problem = f"The row can't be written as JSON: {error}."
            yield Record(name, row, after, body, problem, row / file.metadata.num_rows)


def _plain(value: Any) -> Any:
    """Return what JSON has for what it has not: bytes as the model server takes them, else text."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


# --- what another one could not predict -----------------------------------------------------------


def only(found: Iterator[Record], errors: Path, names: Sequence[str]) -> Iterator[Record]:
    """Return those of ``found`` that are in the errors of another one: both are in one order.

    Of several replicas each wrote its own file; what it says twice is meant once.
    """
    files = [path for path in sorted(errors.glob("errors*.jsonl")) if not path.is_symlink()]
    if not files:
        raise RefusedError(f"There is no errors.jsonl in {errors.name}.", MISSING)
    number = {name: place for place, name in enumerate(names)}
    wanted = heapq.merge(*(_errors_in(path, number) for path in files))
    following = next(wanted, None)
    for record in found:
        here = (number[record.file], record.line)
        while following is not None and following < here:
            following = next(wanted, None)
        if following == here:
            yield record
        if following is None:
            return


def _errors_in(path: Path, number: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    with path.open("rb") as file:
        for data in file:
            try:
                said = json.loads(data)
                place = (number[said["file"]], int(said["line"]))
            except (ValueError, KeyError, TypeError) as problem:
                message = "These errors are of another input: run all of it again."
                raise RefusedError(message, REFUSED) from problem
            yield place
