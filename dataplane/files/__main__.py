"""``python3 -m dataplane.files``: serve one volume until SIGTERM.

Exit codes: 0 asked to end, 2 can't start (one sentence says why).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from dataplane.files import memory
from dataplane.files.http import Server
from dataplane.files.server import Files, tending
from dataplane.files.tree import Tree

TOKEN = "BERTH_FILES_TOKEN"  # noqa: S105 - its name


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m dataplane.files")
    parser.add_argument("--root", required=True, help="name of the volume below BERTH_VOLUMES")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--bind", default="127.0.0.1")
    parser.add_argument("--read-only", action="store_true")
    options = parser.parse_args(words)
    token = os.environ.pop(TOKEN, "")
    base = os.environ.get("BERTH_VOLUMES", "")
    if not token:
        return _no(f"{TOKEN} is not set.")
    if "/" in options.root or options.root in {"", ".", ".."}:
        return _no("--root is the name of a volume.")
    root = Path(base) / options.root
    if not base or not root.is_dir():
        return _no("There is no such volume here (BERTH_VOLUMES).")
    memory.give_back_early()
    files = Files(Tree(root, read_only=options.read_only or not os.access(root, os.W_OK)))
    try:
        server = Server((options.bind, options.port), token, files.answer)
    except OSError as error:
        return _no(f"Can't listen on {options.bind} port {options.port}: {error.strerror}.")
    tending(files)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    signal.signal(signal.SIGINT, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.2)
    files.stop()
    return 0


def _no(sentence: str) -> int:
    print(sentence, file=sys.stderr)  # noqa: T201 - why it can't start
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
