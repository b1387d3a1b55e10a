"""Writes predictions and errors so that a program that was killed goes on where it was.

What is written is appended. A small file says from time to time how far the input is and how long
each file of the output is by then; who begins again cuts them to that, and reads on from there.
So no instance is there twice, and none is missing. Parquet can't be appended to: it is made of
the lines when all are there, and only when that counts do the lines go.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from .batch_input import Place
from .batch_parquet import parquet_of, to_parquet
from .files import REFUSED, RefusedError

MOST_FILE = 256 * 2**20  # bytes of one file with predictions
STATE = "batch-progress"
MOST_REASONS = 20  # others are counted without their words
MOST_REASON = 160  # characters
MOST_TOLD = 5  # reasons, of all replicas
# From a quote to its like, or to the end: what came was cut.
_QUOTED = re.compile(r"""(?<!\w)(["'`]).*?(?:\1(?!\w)|$)|“.*?(?:”|$)""")


@dataclass
class Progress:
    """How far it is. ``about``: what was asked of which input; anything else begins anew."""

    about: Mapping[str, Any]
    place: Place = field(default_factory=Place)
    chunk: int = 0
    output: str = ""
    lengths: dict[str, int] = field(default_factory=dict)
    predicted: int = 0
    failed: int = 0
    reasons: dict[str, int] = field(default_factory=dict)  # why, and how many of them
    share: float = 0.0  # of the input, read by then
    is_done: bool = False


@dataclass(frozen=True)
class Whole:
    """How far all replicas are together."""

    predicted: int
    failed: int
    share: float
    is_done: bool
    chunks: int  # that they read, each of them all
    reasons: Sequence[tuple[str, int]]  # the most frequent ones first


class Results:
    """The files of one shard: ``predictions-00000.jsonl`` and on, and ``errors.jsonl``."""

    def __init__(self, folder: Path, kept: Path, about: Mapping[str, Any]) -> None:
        shard, shards = about["shard"]
        mark = f"{_mark(shard, shards)}-" if shards > 1 else ""
        self.folder, self.mark = folder, mark
        self.is_parquet = about.get("format") == "parquet"
        self.errors = f"errors-{mark[:-1]}.jsonl" if mark else "errors.jsonl"
        self.state = _state(kept, shard, shards)
        self.open: dict[str, IO[bytes]] = {}
        self.progress = self._found(about)
        self.progress.output = str(folder)
        self._cut()

    def write(
        self,
        predictions: Sequence[bytes],
        errors: Sequence[tuple[bytes, str]],
        place: Place,
        share: float = 0.0,
    ) -> None:
        """Take what came of one chunk; ``commit`` makes it count. ``errors``: lines, and why."""
        said = self.progress
        current = max(name for name in said.lengths if name != self.errors)
        if said.lengths[current] > MOST_FILE:
            current = self._predictions(len(said.lengths) - 1)
            said.lengths[current] = 0
        for name, lines in ((current, predictions), (self.errors, [line for line, _why in errors])):
            if lines:
                data = b"".join(lines)
                self._file(name).write(data)
                said.lengths[name] += len(data)
        said.predicted += len(predictions)
        said.failed += len(errors)
        for _line, problem in errors:
            count(said.reasons, reason_of(problem))
        said.chunk += 1
        said.place, said.share = place, share

    def commit(self, *, is_done: bool = False) -> None:
        """Have all that was written on the disk, then write down that it counts."""
        for file in self.open.values():
            file.flush()
            os.fsync(file.fileno())
        if is_done and self.is_parquet and not self.progress.is_done:
            to_parquet(self._lines())
        self.progress.is_done = is_done
        part = self.state.with_suffix(".part")
        with part.open("wb") as made:
            made.write(json.dumps(asdict(self.progress)).encode())
            made.flush()
            os.fsync(made.fileno())
        part.replace(self.state)
        if is_done and self.is_parquet:
            for path in self._lines():
                path.unlink(missing_ok=True)

    def whole(self) -> Whole:
        """Return how far all replicas are, by what each of them wrote down of this very run.

        One that saw another input has other shares: together they would miss some of it.
        """
        said, shards = self.progress, self.progress.about["shard"][1]
        found = [_read(_state(self.state.parent, number, shards)) for number in range(shards)]
        theirs = [one for one in found if one is not None and one.output == said.output]
        if any({**one.about, "shard": said.about["shard"]} != said.about for one in theirs):
            raise RefusedError("The input changed while it ran: run all of it again.", REFUSED)
        reasons: dict[str, int] = {}
        for reason, times in (pair for one in theirs for pair in one.reasons.items()):
            count(reasons, reason, times)
        return Whole(
            sum(one.predicted for one in theirs),
            sum(one.failed for one in theirs),
            sum(1.0 if one.is_done else one.share for one in theirs) / shards,
            sum(one.is_done for one in theirs) == shards,
            sum(one.chunk for one in theirs),
            Counter(reasons).most_common(MOST_TOLD),
        )

    def _lines(self) -> list[Path]:
        return [self.folder / name for name in self.progress.lengths if name != self.errors]

    def _found(self, about: Mapping[str, Any]) -> Progress:
        """Return how far it was; where its output is another folder, what counts is copied over."""
        anew = Progress(about, lengths={self._predictions(0): 0, self.errors: 0})
        found = _read(self.state)
        elsewhere = found is not None and found.output != str(self.folder)
        if found is None or found.about != about or (elsewhere and found.is_done):
            return anew
        before = Path(found.output)
        if found.is_done and self.is_parquet:
            lines = [before / name for name in found.lengths if name != self.errors]
            return found if all(parquet_of(path).is_file() for path in lines) else anew
        for name, length in found.lengths.items():
            its = before / name
            if its.is_symlink() or not its.is_file() or its.stat().st_size < length:
                return anew
        if elsewhere:
            for name in found.lengths:
                shutil.copyfile(before / name, self.folder / name)
        return found

    def _cut(self) -> None:
        """What was written after the last commit does not count, nor what no commit knows."""
        is_made = self.progress.is_done and self.is_parquet
        for path in self.folder.glob(f"predictions-{self.mark}[0-9]*"):
            if path.name not in self.progress.lengths and not is_made:
                path.unlink()
        for name, length in self.progress.lengths.items():
            if not is_made or name == self.errors:
                self._file(name).truncate(length)
        self.commit(is_done=self.progress.is_done)

    def _file(self, name: str) -> IO[bytes]:
        if name not in self.open:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            self.open[name] = os.fdopen(os.open(self.folder / name, flags, 0o644), "ab")
        return self.open[name]

    def _predictions(self, number: int) -> str:
        return f"predictions-{self.mark}{number:05}.jsonl"


def reason_of(problem: str) -> str:
    """Return why in few words. What is quoted may be data, which is for errors.jsonl alone."""
    text = "".join(one if one.isprintable() else "?" for one in " ".join(problem.split()))
    words = _QUOTED.sub("…", text)
    return words if len(words) <= MOST_REASON else words[: MOST_REASON - 1] + "…"


def count(reasons: dict[str, int], reason: str, times: int = 1) -> None:
    """Count it with those that differ in numbers only; of very many kinds the last as others."""
    alike = next((one for one in reasons if _kind(one) == _kind(reason)), reason)
    name = alike if alike in reasons or len(reasons) < MOST_REASONS else ""
    reasons[name] = reasons.get(name, 0) + times


@lru_cache(MOST_REASONS * 4)
def _kind(reason: str) -> str:
    return re.sub(r"[\d.,]+", "0", reason)


def same_input(kept: Path, seen: Sequence[Any]) -> None:
    """Refuse where the input is another than that of a batch which kept here how far it was."""
    for path in kept.glob(f"{STATE}*.json"):
        before = _read(path)
        if before is not None and before.about.get("input") != list(seen):
            said = "The input has changed since: its lines are others. Run all of it again."
            raise RefusedError(said, REFUSED)


def _mark(shard: int, shards: int) -> str:
    return f"{shard:02}-of-{shards:02}"


def _state(kept: Path, shard: int, shards: int) -> Path:
    return kept / (f"{STATE}-{_mark(shard, shards)}.json" if shards > 1 else f"{STATE}.json")


def _read(state: Path) -> Progress | None:
    """Return what a replica wrote down; None: nothing that could be it."""
    try:
        said = json.loads(state.read_bytes())
        return Progress(**{**said, "place": Place(**said["place"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
