"""Jobs of the past, read from a CSV by the names of its columns; and a small sample of our own.

What others publish has the columns of their own clusters: a list of pods (``openb_pod_list``)
names creation, scheduling and deletion, a log of jobs (Philly, as a CSV of its JSON) submission,
start and end. A column that several names fit is taken by the first of them that is there.

``python -m benchmarks.traces`` writes the sample again.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SAMPLE = Path(__file__).resolve().parent / "sample_jobs.csv"
_COLUMNS = {
    "submit": ("submit", "submitted_time", "submit_time", "creation_time"),
    "start": ("start", "scheduled_time", "start_time"),
    "end": ("end", "deletion_time", "end_time"),
    "duration": ("duration", "duration_s", "run_time"),
    "gpus": ("gpus", "num_gpu", "num_gpus", "gpu_num"),
    "kind": ("kind", "gpu_spec", "gpu_type"),
    "tenant": ("tenant", "vc", "project", "qos", "user"),
}
_DAY_S = 86_400.0


@dataclass(frozen=True)
class TraceJob:
    """``kinds``: any of them will do; none: any there is. Seconds; the first is submitted at 0."""

    submit_s: float
    duration_s: float
    gpus: int
    kinds: tuple[str, ...]
    tenant: str


def read(path: Path) -> list[TraceJob]:
    """Return the jobs that asked for GPUs and ran, in the order in which they were submitted."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        named = _named(rows.fieldnames or ())
        found = sorted(_jobs(rows, named), key=lambda job: job.submit_s)
    begin = found[0].submit_s if found else 0.0
    return [
        TraceJob(job.submit_s - begin, job.duration_s, job.gpus, job.kinds, job.tenant)
        for job in found
    ]


def _named(header: Iterable[str]) -> dict[str, str]:
    """Return which column is what."""
    there = {name.strip().lower(): name for name in header}
    found = {
        field: there[name]
        for field, names in _COLUMNS.items()
        for name in reversed(names)
        if name in there
    }
    missing = [field for field in ("submit", "gpus", "tenant") if field not in found]
    if "duration" not in found and not {"start", "end"} <= found.keys():
        missing.append("duration (or start and end)")
    if missing:
        message = f"no column says: {', '.join(missing)}; there are: {', '.join(there)}"
        raise ValueError(message)
    return found


def _jobs(rows: Iterable[Mapping[str, str]], named: Mapping[str, str]) -> Iterator[TraceJob]:
    for row in rows:
        said = {field: (row[column] or "").strip() for field, column in named.items()}
        gpus = math.ceil(float(said["gpus"] or 0))  # a part of one counts as one
        submit, seconds = _seconds(said["submit"]), _seconds(said.get("duration", ""))
        if seconds is None:
            start, end = _seconds(said.get("start", "")), _seconds(said.get("end", ""))
            if start is not None and end is not None:
                seconds = end - start
        if gpus <= 0 or submit is None or seconds is None or seconds <= 0:
            continue  # it never ran, or without GPUs
        kinds = tuple(k for k in said.get("kind", "").replace(",", "|").split("|") if k)
        yield TraceJob(submit, seconds, gpus, kinds, said["tenant"] or "nobody")


def _seconds(text: str) -> float | None:
    """A number of seconds, or a date and time."""
    if text.lower() in {"", "none", "nan", "null"}:
        return None
    try:
        return float(text)
    except ValueError:
        at = datetime.fromisoformat(text.removesuffix(" PST").removesuffix(" PDT"))
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


# --- the sample -----------------------------------------------------------------------------------

CAPACITY = {"h100": 24, "a100": 8}
# A team of each: what part of the work is its own, and in which part of three days it works most.
_TEAMS = {
    "speech": (0.30, 0),
    "vision": (0.25, 1),
    "language": (0.25, 2),
    "robotics": (0.12, 0),
    "biology": (0.08, 1),
}
_SEVERAL = {name: (2, 2, 4) if part > 0.2 else (2,) for name, (part, _day) in _TEAMS.items()}
_DAYS, _JOBS, _SEED = 3, 1300, "jobs of five teams"
# Durations: half are over in 19 minutes, nine in ten in 3.1 hours, as in a public log of training.
_MEDIAN_S, _SPREAD, _LONGEST_S = 1_140.0, 1.78, 12 * 3_600.0
_LARGE = 0.16  # a part of jobs that take several GPUs, and most of the hours


def sample() -> list[TraceJob]:
    """Return made-up jobs of teams whose busy times differ: the same at each call."""
    random = Random(_SEED)
    names, parts = list(_TEAMS), [part for part, _day in _TEAMS.values()]
    found = []
    for _n in range(_JOBS):
        (tenant,) = random.choices(names, parts)
        day = _TEAMS[tenant][1] if random.random() < 0.6 else random.randrange(_DAYS)
        hour = min(23.99, max(0.0, random.gauss(13, 4)))
        gpus = random.choice(_SEVERAL[tenant]) if random.random() < _LARGE else 1
        kind = random.random()
        kinds = ("h100",) if kind < 0.6 else ("a100",) if kind < 0.7 else ("h100", "a100")
        seconds = random.lognormvariate(math.log(_MEDIAN_S), _SPREAD)
        found.append(
            TraceJob(
                round(day * _DAY_S + hour * 3600),
                round(min(_LONGEST_S, max(30.0, seconds))),
                gpus,
                ("h100",) if gpus > 1 else kinds,
                tenant,
            )
        )
    return sorted(found, key=lambda job: (job.submit_s, job.tenant))


def write(jobs: Iterable[TraceJob], path: Path) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("submit", "duration", "gpus", "kind", "tenant"))
        for job in jobs:
            seconds = (int(job.submit_s), int(job.duration_s))
            rows.writerow((*seconds, job.gpus, "|".join(job.kinds), job.tenant))


if __name__ == "__main__":
    write(sample(), SAMPLE)
