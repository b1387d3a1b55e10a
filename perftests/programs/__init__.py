"""The program of performance tests, packed as the code of a job."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jobs.packages import packed

NAME = "collective.py"


@cache
def package() -> bytes:
    return packed({NAME: (Path(__file__).parent / NAME).read_bytes()})
