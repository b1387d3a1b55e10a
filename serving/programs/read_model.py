"""Reads the files of a version once: what they are made of, and what the model takes and gives.

    read_model --framework sklearn --model-dir models/iris

Paths are below BERTH_VOLUMES. The digest is that of ``sha256sum`` of all files in the order of
their paths, so anybody can repeat it; links are no files. What it finds it tells the portal, in two
parts: the digest counts too where the model can't be opened.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import stat
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from .files import FRAMEWORKS, MISSING, RefusedError
from .model_server import opened
from .protocols import described

PIECE = 4 * 1024 * 1024
_PAUSES = (0.5, 2.0, 5.0, 10.0, 0.0)


def main(words: list[str] | None = None) -> None:
    """Tell digest and description; end with the code of what is wrong with the model."""
    parser = argparse.ArgumentParser(prog="read_model", description=__doc__)
    parser.add_argument("--framework", default="")
    parser.add_argument("--model-dir", required=True)
    options = parser.parse_args(words)
    folder = Path(os.environ.get("BERTH_VOLUMES", ".")) / options.model_dir
    if not folder.is_dir():
        tell(problem="There is no such folder.", done=True)
        sys.exit(MISSING)
    digest, size = digest_of(folder)
    tell(digest=digest, size=size)
    if options.framework not in FRAMEWORKS:
        tell(done=True)
        return
    try:
        said = json.loads(described(options.framework, opened(options.framework, folder, 1)))
    except RefusedError as problem:
        sys.stderr.write(f"berth: {problem}\n")
        tell(problem=str(problem), done=True)
        sys.exit(problem.code)
    tell(described=said, done=True)


def digest_of(folder: Path) -> tuple[str, int]:
    """Return the digest of all files below ``folder``, and how many bytes they have."""
    lines, size = [], 0
    for path in sorted(_files(folder), key=lambda one: os.fsencode(one.relative_to(folder))):
        its = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                its.update(piece)
                size += len(piece)
        lines.append(its.hexdigest().encode() + b"  " + os.fsencode(path.relative_to(folder)))
    whole = hashlib.sha256(b"".join(line + b"\n" for line in lines))
    return f"sha256:{whole.hexdigest()}", size


def _files(folder: Path) -> list[Path]:
    """Return the files themselves: no links, pipes or devices."""
    found = []
    for above, _folders, names in os.walk(folder):
        paths = (Path(above) / name for name in names)
        found += [path for path in paths if stat.S_ISREG(path.lstat().st_mode)]
    return found


def tell(**told: Any) -> None:
    """Report to the portal; without it what was read is in the log alone."""
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    url, token = os.environ.get("BERTH_REPORT_URL"), os.environ.get("BERTH_REPORT_TOKEN")
    if not url or not token:
        return
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    asked = urllib.request.Request(  # noqa: S310 - the portal's own address
        url, json.dumps({"told": told}).encode(), headers
    )
    straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for pause in _PAUSES:
        try:
            straight.open(asked, timeout=20).close()
        except urllib.error.HTTPError as error:
            if error.code < 500:  # noqa: PLR2004 - the portal knows of a newer launch, or of none
                return
            time.sleep(pause)
        except OSError:
            time.sleep(pause)
        else:
            return


if __name__ == "__main__":
    main()
