"""The program of performance tests, packed as the code of a job."""

from __future__ import annotations

import gzip
import io
import tarfile
from functools import cache
from pathlib import Path

NAME = "collective.py"


@cache
def package() -> bytes:
    """Return it as tar.gz; the same bytes always, so that a project keeps it once."""
    content = (Path(__file__).parent / NAME).read_bytes()
    entry = tarfile.TarInfo(NAME)
    entry.size, entry.mode = len(content), 0o644
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)
