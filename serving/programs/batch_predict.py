"""Predicts every instance of some files: through a model server of its own, or an endpoint.

    batch_predict --input data/in --framework sklearn --model-dir models/digits/v1 --name digits
    batch_predict --input data/in --endpoint URL --name digits      its key: BERTH_ENDPOINT_KEY

Paths are below BERTH_VOLUMES. Predictions and errors go to BERTH_OUTPUT; how far it is is kept in
BERTH_CHECKPOINTS, so that who starts again goes on from there. Of several replicas each takes its
share; the first one tells how far all are, and ends when all have. Needs nothing beside Python, but
what the model server needs, and pyarrow for Parquet.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import signal
import sys
import time
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from .batch_calls import AWAY, Answer, Caller, Endpoint, OwnServer, StoppedError
from .batch_input import (
    ENCODINGS,
    Place,
    Record,
    Shape,
    check_columns,
    files_in,
    only,
    records,
)
from .batch_output import Progress, Results, Whole, same_input
from .batch_parquet import require_parquet
from .files import FRAMEWORKS, REFUSED, RefusedError

FULL, NONE_PREDICTED = 74, 1  # exit codes
COMMIT_EVERY_S = 2.0
OTHERS_WITHIN_S = 1800.0  # that the first replica waits for others that do not get on
MOST_SHARE = 0.999  # that is told before the end
MOST_CHUNK = 2**20  # bytes of the instances in one request, if it is more than one
AHEAD = 2  # chunks that are read ahead, for each request at once


@dataclass(frozen=True)
class Chunk:
    """Records that are asked together, and where the next ones begin; ``share`` of that file."""

    records: Sequence[Record]
    after: Place
    share: float = 0.0


def main(words: list[str] | None = None) -> None:
    """Predict what is left; end with 0 where anything was predicted, or nothing was there."""
    options = _options(words)
    volumes = Path(os.environ.get("BERTH_VOLUMES", "."))
    output = Path(os.environ["BERTH_OUTPUT"])
    kept = Path(os.environ.get("BERTH_CHECKPOINTS") or output)
    asked: OwnServer | Endpoint = Endpoint(options.endpoint, os.environ.get("BERTH_ENDPOINT_KEY"))
    if not options.endpoint:
        asked = OwnServer(options.framework, volumes / options.model_dir, options.name)

    def told_to_end(number: int, _frame: object) -> None:
        asked.kill()
        os._exit(128 + number)  # what counts is kept

    signal.signal(signal.SIGTERM, told_to_end)
    try:
        place = volumes / options.input
        files = files_in(place, output)
        names = [str(path.relative_to(place)) if path != place else path.name for path in files]
        stats = [path.stat() for path in files]
        seen = [[name, it.st_size, it.st_mtime_ns] for name, it in zip(names, stats, strict=True)]
        results = _results(options, volumes, output, kept, seen)
        said = results.progress
        if not said.is_done:
            with asked:
                caller = Caller(asked, options.name)
                shape = replace(shape_of(caller.takes()), encoding=options.encoding)
                check_columns(files, shape)
                found = records(files, names, said.place, shape)
                if options.only:
                    found = only(found, volumes / options.only, names)
                Run(options, results, caller, [its.st_size for its in stats]).all(found)
        _conclude(results, options.others_within)
    except (RefusedError, StoppedError) as problem:
        _end(str(problem), problem.code)
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        _end(f"A compressed file of the input is damaged: {problem}.", REFUSED)
    except OSError as problem:
        where = problem.filename or "the output"
        _end(f"{where} can't be written or read: {problem.strerror or problem}.", FULL)


def _conclude(results: Results, within_s: float) -> None:
    """Say what came of it. The first replica waits for the others: it tells how far all are.

    Where none of them gets on for ``within_s`` it ends, too: so long a lost one may take to return.
    """
    said = results.progress
    if not is_first(said):
        _say(f"its share is done: {said.predicted} instances are predicted, {said.failed} are not.")
        return
    whole, until = tell(results), time.monotonic() + within_s
    while not whole.is_done:
        if time.monotonic() > until:
            known = f"{whole.predicted} instances are predicted, {whole.failed} are not"
            waited = f"Other replicas did not get on for {within_s / 60:g} minutes"
            _end(f"{waited}: so far {known}.", AWAY)
        time.sleep(COMMIT_EVERY_S)
        before, whole = whole, tell(results)
        if whole != before:
            until = time.monotonic() + within_s
    _say(f"{whole.predicted} instances are predicted, {whole.failed} are not (errors.jsonl).")
    for reason, times in whole.reasons:
        _say(f"{times} of these: {reason or 'other reasons'}")
    if whole.failed and not whole.predicted:
        _end("Not one instance was predicted: errors.jsonl says why.", NONE_PREDICTED)


def _results(
    options: argparse.Namespace, volumes: Path, output: Path, kept: Path, seen: list[list[Any]]
) -> Results:
    """Return what it writes to, which knows how far it was."""
    shard = [int(os.environ.get("BERTH_REPLICA", "0")), int(os.environ.get("WORLD_SIZE", "1"))]
    about = {"input": seen, "shard": shard, "batch": options.batch, "what": options.what}
    about |= {"format": options.format, "only": options.only}
    if options.format == "parquet":
        require_parquet()
    if options.only_state:
        same_input(volumes / options.only_state, seen)
    output.mkdir(parents=True, exist_ok=True)
    kept.mkdir(parents=True, exist_ok=True)
    results = Results(output, kept, about)
    if results.progress.chunk:
        said = results.progress
        told = f"{said.predicted} instances are predicted, {said.failed} are not"
        _say(f"goes on where it was: {told}.")
    return results


class Run:
    """From records to answers in their order, some requests at a time, none held for long."""

    def __init__(
        self,
        options: argparse.Namespace,
        results: Results,
        caller: Caller,
        sizes: Sequence[int],
    ) -> None:
        self.options, self.results, self.caller, self.sizes = options, results, caller, sizes
        self.shard, self.shards = results.progress.about["shard"]
        self.kept_at = 0.0

    def all(self, found: Iterator[Record]) -> None:
        number = self.results.progress.chunk
        pool = ThreadPoolExecutor(self.options.at_once, "ask")
        waiting: deque[tuple[Chunk, Future[list[Answer]]]] = deque()
        try:
            for chunk in chunks(found, self.options.batch):
                mine = number % self.shards == self.shard
                number += 1
                taken = chunk if mine else replace(chunk, records=())
                bodies = [record.body for record in taken.records if not record.problem]
                waiting.append((taken, pool.submit(self.caller.answers, bodies)))
                if len(waiting) >= AHEAD * self.options.at_once:
                    self._take(*waiting.popleft())
            while waiting:
                self._take(*waiting.popleft())
        finally:
            self.caller.stop()
            pool.shutdown(wait=False, cancel_futures=True)
        self.results.commit(is_done=True)

    def _take(self, chunk: Chunk, future: Future[list[Answer]]) -> None:
        answers = iter(future.result())
        predictions: list[bytes] = []
        errors: list[tuple[bytes, str]] = []
        for record in chunk.records:
            line = {"file": record.file, "line": record.line}
            problem = record.problem
            if not problem:
                answer = next(answers)
                problem = answer.problem
                its = b"" if not self.options.instances else b', "instance": ' + record.body
            if problem:
                text = json.dumps({**line, "error": problem}, ensure_ascii=False)
                errors.append((text.encode(errors="replace") + b"\n", problem))
            else:
                head = json.dumps(line, ensure_ascii=False).encode(errors="replace")[:-1]
                made = json.dumps(answer.prediction, ensure_ascii=False).encode(errors="replace")
                by = f', "version": {json.dumps(answer.version)}' if answer.version else ""
                predictions.append(head + its + b', "prediction": ' + made + by.encode() + b"}\n")
        share = share_of(chunk, self.sizes)
        self.results.write(predictions, errors, chunk.after, share)
        if time.monotonic() - self.kept_at > COMMIT_EVERY_S:
            self.results.commit()
            self.kept_at = time.monotonic()
            if is_first(self.results.progress):
                tell(self.results)


def is_first(said: Progress) -> bool:
    return bool(said.about["shard"][0] == 0)


def tell(results: Results) -> Whole:
    """Tell the portal how far all are, on one line of its events; return that."""
    whole = results.whole()
    share = 1.0 if whole.is_done else min(MOST_SHARE, whole.share)
    told: dict[str, Any] = {
        "step_count": whole.predicted + whole.failed,
        "step_start_time": time.time(),
    }
    told |= {"progress": round(share, 4), "failed": whole.failed}
    if whole.reasons:
        told["failed_because"] = whole.reasons
    if where := os.environ.get("BERTH_EVENTS"):
        with contextlib.suppress(OSError), Path(where).open("a", encoding="utf-8") as file:
            file.write(json.dumps(told, ensure_ascii=False) + "\n")
    return whole


def chunks(found: Iterator[Record], most: int) -> Iterator[Chunk]:
    """Return records together as they are asked, the same ones from whatever chunk it begins."""
    held: list[Record] = []
    size = 0
    for record in found:
        if held and (len(held) >= most or size + len(record.body) > MOST_CHUNK):
            yield Chunk(held, held[-1].after, held[-1].share)
            held, size = [], 0
        held.append(record)
        size += len(record.body)
    if held:
        yield Chunk(held, held[-1].after, held[-1].share)


def shape_of(takes: Sequence[Any]) -> Shape:
    """Return how rows become instances, by the inputs that the metadata of v2 has."""
    if len(takes) > 1:
        return Shape(tuple(str(one.get("name")) for one in takes))
    if not takes:
        return Shape()
    names = (takes[0].get("parameters") or {}).get("columns") or ()
    shape = [size for size in takes[0].get("shape") or () if isinstance(size, int)]
    if len(shape) == 1:
        return Shape(count=1, is_single=True)
    each = shape[1] if len(shape) == 2 else 0  # noqa: PLR2004 - a matrix
    return Shape(tuple(map(str, names)), max(0, each))


def share_of(chunk: Chunk, sizes: Sequence[int]) -> float:
    """Return how much of the input is read after it, by the sizes of the files.

    Never 1: that says that all of it is predicted and written.
    """
    file = chunk.after.file
    read = sum(sizes[:file]) + chunk.share * sizes[file]
    return min(MOST_SHARE, read / max(1, sum(sizes)))


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="batch_predict", description=__doc__)
    parser.add_argument("--input", required=True, help="a file or folder: VOLUME/PATH")
    parser.add_argument("--framework", choices=FRAMEWORKS, default="sklearn")
    parser.add_argument("--model-dir", default="")
    parser.add_argument("--name", default="model", help="of the model")
    parser.add_argument("--endpoint", default="", help="asked instead of an own server")
    parser.add_argument("--what", default="", help="which version: another one begins anew")
    parser.add_argument("--batch", type=int, default=32, help="instances in one request")
    parser.add_argument("--at-once", type=int, default=4, help="requests at a time")
    parser.add_argument("--format", choices=("jsonl", "parquet"), default="jsonl")
    parser.add_argument("--encoding", choices=ENCODINGS, default="utf-8", help="of CSV")
    parser.add_argument(
        "--only", default="", help="only what is in the errors.jsonl of this folder"
    )
    parser.add_argument("--only-state", default="", help="where that one kept how far it was")
    parser.add_argument("--others-within", type=float, default=OTHERS_WITHIN_S, metavar="SECONDS")
    parser.add_argument("--no-instances", dest="instances", action="store_false")
    return parser.parse_args(words)


def _say(text: str) -> None:
    sys.stderr.write(f"berth: {text}\n")
    sys.stderr.flush()


def _end(text: str, code: int) -> NoReturn:
    """End at once: what is still being asked does not count."""
    _say(text)
    os._exit(code)


if __name__ == "__main__":
    main()
